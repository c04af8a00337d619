-- Sizes of one instance, and its first event, which says what was carried over.
select events.count, events.bytes, events.opening
from queen_durable.instances i
cross join lateral (
    select count(*) as count, coalesce(sum(octet_length(h.data)), 0)::bigint as bytes,
           (array_agg(h.data) filter (where h.event_id = 1))[1] as opening
    from queen_durable.history h
    where h.instance = i.instance and h.execution_id = i.current_execution_id
) as events
where i.instance = $1
