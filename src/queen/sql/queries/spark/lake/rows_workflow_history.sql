-- Promises: the events of workflow executions that ended in [since, until).
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until
      from (select current_setting('queen.ask')::jsonb as j) s
)
select h.instance, i.name as workflow, i.version, h.execution_id::bigint as execution_id, h.event_id::bigint as event_id, h.kind, h.data,
       e.status, to_timestamp(e.started_at / 1000.0) as started_at, to_timestamp(e.completed_at / 1000.0) as completed_at
  from ask a
  join queen_durable.executions e on e.completed_at >= extract(epoch from a.since) * 1000
                                 and e.completed_at < extract(epoch from a.until) * 1000
  join queen_durable.history h on h.instance = e.instance and h.execution_id = e.execution_id
  join queen_durable.instances i on i.instance = h.instance
