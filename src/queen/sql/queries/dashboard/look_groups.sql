-- Every group on every queue: what it has still to get and since when, partitions behind and failing, leases, running totals.
-- The heads say how old the first and the newest message are; only where neither is the one in question it is looked up.
with t as materialized (select queen.clock() as now), lanes as (
    select c.queue_id, c.consumer_group, c.partition_id, c.retry_count, c.lease_id is not null and c.lease_expires_at > t.now as leased,
           c.total_messages_consumed, c.total_messages_failed, c.last_consumed_at, greatest(c.last_consumed_seq + 1, p.first_seq) as head,
           p.has_skips, c.last_consumed_seq < p.first_seq as at_first, p.oldest_at, p.last_created_at,
           queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting
      from queen.partition_consumers c
      join queen.partitions p on p.id = c.partition_id
     cross join t
    offset 0 -- so that the depth is reckoned once for each
), numbers as (
    select l.queue_id, l.consumer_group, count(*) as partitions, sum(l.waiting)::bigint as waiting,
           count(*) filter (where l.waiting > 0) as behind,
           min(case when l.waiting = 0 then null
                    when l.has_skips then m.created_at
                    when l.at_first then l.oldest_at
                    when l.waiting = 1 then l.last_created_at
                    else m.created_at end) as oldest_at,
           count(*) filter (where l.waiting > 0 and l.retry_count > 0) as failing, count(*) filter (where l.leased) as leases,
           sum(l.total_messages_consumed)::bigint as consumed, sum(l.total_messages_failed)::bigint as failed,
           max(l.last_consumed_at) as last_consumed_at
      from lanes l
      left join lateral (select x.created_at from queen.messages x
                          where l.waiting > 0 and (l.has_skips or (l.waiting > 1 and not l.at_first)) and x.partition_id = l.partition_id
                            and x.seq >= l.head
                          order by x.seq limit 1) m on true
     group by l.queue_id, l.consumer_group
)
select s.queue_id, s.consumer_group, s.mode, s.start_at, s.created_at, s.used_at, coalesce(n.partitions, 0) as partitions,
       coalesce(n.waiting, 0) as waiting, coalesce(n.behind, 0) as behind, n.oldest_at, coalesce(n.failing, 0) as failing,
       coalesce(n.leases, 0) as leases, coalesce(n.consumed, 0) as consumed, coalesce(n.failed, 0) as failed, n.last_consumed_at
  from queen.subscriptions s left join numbers n on n.queue_id = s.queue_id and n.consumer_group = s.consumer_group
 order by s.queue_id, s.consumer_group
