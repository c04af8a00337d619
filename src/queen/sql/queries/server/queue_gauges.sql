-- Per queue: running totals, the last full minute, depth and age at the last count, partitions, live leases, dead letters.
select q.name, coalesce(t.pushed, 0) as pushed, coalesce(t.popped, 0) as popped, coalesce(t.acked, 0) as acked,
       coalesce(t.failed, 0) as failed, coalesce(m.pushed, 0) as pushed_per_minute, coalesce(m.popped, 0) as popped_per_minute,
       coalesce(m.acked, 0) as acked_per_minute, coalesce(n.lag, 0) as depth, coalesce(n.max_lag_ms, 0) as lag_ms,
       (select count(*) from queen.partitions p where p.queue_id = q.id) as partitions,
       (select count(*) from queen.partition_consumers c
         where c.queue_id = q.id and c.lease_id is not null and c.lease_expires_at > clock_timestamp()) as leased,
       (select count(*) from queen.dead_letter_queue d where d.queue_id = q.id and d.redriven_at is null) as dead_letters
  from queen.queues q
  left join queen.stats_totals t on t.queue_id = q.id
  left join queen.stats m on m.queue_id = q.id and m.bucket = date_trunc('minute', clock_timestamp()) - interval '1 minute'
  left join lateral (select s.lag, s.max_lag_ms from queen.stats s where s.queue_id = q.id order by s.bucket desc limit 1) n on true
 order by q.id
 limit $1
