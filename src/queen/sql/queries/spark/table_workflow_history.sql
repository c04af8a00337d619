-- Promises: the events of workflow executions that started in [since, until).
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until,
           case when j -> 'queues' is not null then array(select jsonb_array_elements_text(j -> 'queues')::bigint) end as queues
      from (select current_setting('queen.ask')::jsonb as j) s
)
select h.instance, i.name as workflow, i.version, h.execution_id::bigint as execution_id, h.event_id::bigint as event_id, h.kind, h.data,
       e.status, to_timestamp(e.started_at / 1000.0) as started_at
  from ask a
  join queen_durable.executions e on e.started_at >= extract(epoch from a.since) * 1000 and e.started_at < extract(epoch from a.until) * 1000
  join queen_durable.history h on h.instance = e.instance and h.execution_id = e.execution_id
  join queen_durable.instances i on i.instance = h.instance
