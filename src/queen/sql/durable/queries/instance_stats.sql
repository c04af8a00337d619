-- Sizes of one instance.
select events.count, events.bytes, coalesce(json_array_length(events.carried), 0)
from queen_durable.instances i
cross join lateral (
    select count(*) as count, coalesce(sum(octet_length(h.data)), 0)::bigint as bytes,
           (array_agg(h.data::json -> 'carried_events') filter (where h.event_id = 1))[1] as carried
    from queen_durable.history h
    where h.instance = i.instance and h.execution_id = i.current_execution_id
) as events
where i.instance = $1
