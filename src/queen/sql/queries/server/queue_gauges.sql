-- Per queue, for the $1 oldest, and in one row without a name for all others: the last full minute, depth and age at the last count,
--   partitions, live leases, dead letters. A queue that is called as the others are together is one of them.
with leased as (
    select c.queue_id, count(*) as n from queen.partition_consumers c
     where c.lease_id is not null and c.lease_expires_at > clock_timestamp() group by 1
), lanes as (
    select p.queue_id, count(*) as n from queen.partitions p group by 1
), dead as (
    select d.queue_id, count(*) as n from queen.dead_letter_queue d where d.redriven_at is null group by 1
), figures as (
    select q.id, case when row_number() over (order by q.id) <= $1 and q.name <> $2 then q.name end as name,
           coalesce(m.pushed, 0) as pushed, coalesce(m.popped, 0) as popped, coalesce(m.acked, 0) as acked,
           coalesce(n.lag, 0) as depth, coalesce(n.max_lag_ms, 0) as lag_ms,
           coalesce(p.n, 0) as partitions, coalesce(l.n, 0) as leased, coalesce(d.n, 0) as dead_letters
      from queen.queues q
      left join queen.stats m on m.queue_id = q.id and m.bucket = date_trunc('minute', clock_timestamp()) - interval '1 minute'
      left join lateral (select s.lag, s.max_lag_ms from queen.stats s where s.queue_id = q.id order by s.bucket desc limit 1) n on true
      left join lanes p on p.queue_id = q.id
      left join leased l on l.queue_id = q.id
      left join dead d on d.queue_id = q.id
)
select f.name, count(*) as queues, sum(f.pushed)::bigint as pushed_per_minute, sum(f.popped)::bigint as popped_per_minute,
       sum(f.acked)::bigint as acked_per_minute, sum(f.depth)::bigint as depth, max(f.lag_ms) as lag_ms,
       sum(f.partitions)::bigint as partitions, sum(f.leased)::bigint as leased, sum(f.dead_letters)::bigint as dead_letters
  from figures f
 group by f.name, case when f.name is not null then f.id end
 order by min(f.id)
