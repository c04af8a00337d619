-- Promises: the counters of the queues by minute in [since, until).
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until,
           case when j -> 'queues' is not null then array(select jsonb_array_elements_text(j -> 'queues')::bigint) end as queues
      from (select current_setting('queen.ask')::jsonb as j) s
)
select q.name as queue, s.bucket, s.pushed, s.popped, s.acked, s.failed, s.lag, s.max_lag_ms
  from ask a
  join queen.stats s on s.bucket >= a.since and s.bucket < a.until and (a.queues is null or s.queue_id = any (a.queues))
  join queen.queues q on q.id = s.queue_id
