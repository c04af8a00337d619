-- Promises: the buckets are stored with these figures, unless a run that began later has written them; returns how many.
-- Locks: the rows, in order of their keys.
with ask as materialized (
    select current_setting('queen.ask')::jsonb as j
), written as (
    insert into queen.rollups as r (queue, partition, consumer_group, grain, bucket, messages_in, messages_out, messages_failed, bytes_in,
                                    wait_p50_ms, wait_p95_ms, wait_p99_ms, work_p50_ms, work_p95_ms, work_p99_ms, lag, backlog_age_ms,
                                    computed_at)
    select x.queue, x.partition, x.consumer_group, x.grain, x.bucket, x.messages_in, x.messages_out, x.messages_failed, x.bytes_in,
           x.wait_p50_ms, x.wait_p95_ms, x.wait_p99_ms, x.work_p50_ms, x.work_p95_ms, x.work_p99_ms, x.lag, x.backlog_age_ms, x.computed_at
      from ask a cross join lateral jsonb_populate_recordset(null::queen.rollups, a.j -> 'rows') x
     order by x.queue, x.grain, x.bucket, x.partition, x.consumer_group
        on conflict (queue, grain, bucket, partition, consumer_group) do update
       set messages_in = excluded.messages_in, messages_out = excluded.messages_out, messages_failed = excluded.messages_failed,
           bytes_in = excluded.bytes_in, wait_p50_ms = excluded.wait_p50_ms, wait_p95_ms = excluded.wait_p95_ms,
           wait_p99_ms = excluded.wait_p99_ms, work_p50_ms = excluded.work_p50_ms, work_p95_ms = excluded.work_p95_ms,
           work_p99_ms = excluded.work_p99_ms, lag = excluded.lag, backlog_age_ms = excluded.backlog_age_ms,
           computed_at = excluded.computed_at
     where r.computed_at <= excluded.computed_at
    returning 1
)
select count(*) as n from written
