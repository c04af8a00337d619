-- Promises: the rollups of whole queues of one grain in [since, until), in order of queue, group and time.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until,
           j ->> 'grain' as grain
      from (select current_setting('queen.ask')::jsonb as j) s
)
select r.queue, r.consumer_group, r.grain, r.bucket, r.messages_in, r.messages_out, r.messages_failed, r.bytes_in, r.wait_p50_ms,
       r.wait_p95_ms, r.work_p50_ms, r.work_p95_ms, r.lag, r.backlog_age_ms
  from ask a join queen.rollups r on r.grain = a.grain and r.partition = '' and r.bucket >= a.since and r.bucket < a.until
 order by r.queue, r.consumer_group, r.bucket
