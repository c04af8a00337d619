-- Every group on every queue: what it has still to get and since when, partitions behind and failing, leases, running totals.
with t as materialized (select queen.clock() as now), numbers as (
    select c.queue_id, c.consumer_group, count(*) as partitions, sum(d.waiting)::bigint as waiting,
           count(*) filter (where d.waiting > 0) as behind, min(m.created_at) as oldest_at,
           count(*) filter (where d.waiting > 0 and c.retry_count > 0) as failing,
           count(*) filter (where c.lease_id is not null and c.lease_expires_at > t.now) as leases,
           sum(c.total_messages_consumed)::bigint as consumed, sum(c.total_messages_failed)::bigint as failed,
           max(c.last_consumed_at) as last_consumed_at
      from queen.partition_consumers c
      join queen.partitions p on p.id = c.partition_id
     cross join t
     cross join lateral (select queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting) d
      left join lateral (select x.created_at from queen.messages x
                          where d.waiting > 0 and x.partition_id = p.id and x.seq >= greatest(c.last_consumed_seq + 1, p.first_seq)
                          order by x.seq limit 1) m on true
     group by c.queue_id, c.consumer_group
)
select s.queue_id, s.consumer_group, s.mode, s.start_at, s.created_at, s.used_at, coalesce(n.partitions, 0) as partitions,
       coalesce(n.waiting, 0) as waiting, coalesce(n.behind, 0) as behind, n.oldest_at, coalesce(n.failing, 0) as failing,
       coalesce(n.leases, 0) as leases, coalesce(n.consumed, 0) as consumed, coalesce(n.failed, 0) as failed, n.last_consumed_at
  from queen.subscriptions s left join numbers n on n.queue_id = s.queue_id and n.consumer_group = s.consumer_group
 order by s.queue_id, s.consumer_group
