-- Promises: the minutes of the past are in the statistics of the queues given, and the next collection counts from here. Lag is what the
--   slowest group had not passed at the end of the minute.
-- Locks: nothing of the verbs (inserts).
with happened as (
    select p.queue_id, date_trunc('minute', m.created_at) as bucket, count(*) as pushed, 0::bigint as popped, 0::bigint as acked,
           0::bigint as failed
      from queen.messages m join queen.partitions p on p.id = m.partition_id
     where p.queue_id = any ($1::bigint[])
     group by 1, 2
     union all
    select d.queue_id, date_trunc('minute', d.ended_at), 0, sum(d.batch_to - d.batch_from + 1),
           coalesce(sum(d.batch_to - d.batch_from + 1) filter (where d.outcome = 'completed'), 0), sum(d.failed)
      from queen.deliveries d
     where d.queue_id = any ($1::bigint[])
     group by 1, 2
), passed as (
    select d.queue_id, d.consumer_group, date_trunc('minute', d.ended_at) as bucket, sum(d.batch_to - d.batch_from + 1) as n
      from queen.deliveries d
     where d.queue_id = any ($1::bigint[]) and (d.outcome in ('completed', 'partial') or d.outcome = 'failed' and d.retry_count = $2)
     group by 1, 2, 3
), minutes as (
    select queue_id, bucket, sum(pushed) as pushed, sum(popped) as popped, sum(acked) as acked, sum(failed) as failed
      from happened group by 1, 2
), behind as (
    select m.queue_id, m.bucket, s.consumer_group,
           sum(m.pushed - coalesce(p.n, 0)) over (partition by m.queue_id, s.consumer_group order by m.bucket) as lag
      from minutes m
      join queen.subscriptions s on s.queue_id = m.queue_id
      left join passed p on p.queue_id = m.queue_id and p.consumer_group = s.consumer_group and p.bucket = m.bucket
), slowest as (
    select queue_id, bucket, max(lag) as lag from behind group by 1, 2
), written as (
    insert into queen.stats (queue_id, bucket, pushed, popped, acked, failed, lag)
    select m.queue_id, m.bucket, m.pushed, m.popped, m.acked, m.failed, s.lag
      from minutes m join slowest s using (queue_id, bucket)
        on conflict (queue_id, bucket) do nothing
)
insert into queen.stats_totals (queue_id, pushed, popped, acked, failed)
select q.id, (select sum(p.next_seq - 1) from queen.partitions p where p.queue_id = q.id),
       sum(c.total_messages_delivered), sum(c.total_messages_consumed), sum(c.total_messages_failed)
  from unnest($1::bigint[]) q(id) join queen.partition_consumers c on c.queue_id = q.id
 group by q.id
    on conflict (queue_id) do update
   set pushed = excluded.pushed, popped = excluded.popped, acked = excluded.acked, failed = excluded.failed
