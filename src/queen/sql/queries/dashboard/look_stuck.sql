-- The partitions in which a message that is held or failed before has kept a group waiting for $1 seconds or more, the longest first, at
-- most $2: who holds it, how often it failed. One look-up for each that is held or failed; none for those that only wait for a consumer.
with t as materialized (select queen.clock() as now), lanes as (
    select p.queue_id, p.id as partition_id, p.name as partition_name, c.consumer_group, c.ready_at, c.retry_count, c.counted_to,
           queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting, greatest(c.last_consumed_seq + 1, p.first_seq) as head, p.has_skips,
           case when c.lease_id is not null and c.lease_expires_at > t.now then c.lease_expires_at end as lease_expires_at,
           case when c.lease_id is not null and c.lease_expires_at > t.now then c.lease_acquired_at end as lease_acquired_at
      from queen.partition_consumers c
      join queen.partitions p on p.id = c.partition_id and p.next_seq > greatest(c.last_consumed_seq + 1, p.first_seq)
     cross join t
     where c.retry_count > 0 or (c.lease_id is not null and c.lease_expires_at > t.now)
)
select l.queue_id, l.partition_id, l.partition_name, l.consumer_group, l.waiting, m.created_at as oldest_at, l.ready_at,
       case when l.counted_to >= m.seq then l.retry_count else 0 end as retry_count, l.lease_expires_at, l.lease_acquired_at,
       m.seq, coalesce(m.transaction_id, m.id::text) as transaction_id
  from lanes l
 cross join lateral (select x.seq, x.transaction_id, x.id, x.created_at from queen.messages x
                      where x.partition_id = l.partition_id and x.seq >= l.head
                        and not (l.has_skips and exists (select from queen.skips k where k.partition_id = x.partition_id and k.seq = x.seq
                                                                                  and k.consumer_group in ('*', l.consumer_group)))
                      order by x.seq limit 1) m
 where m.created_at <= queen.clock() - make_interval(secs => $1::double precision)
   and (l.lease_expires_at is not null or l.counted_to >= m.seq)
 order by m.created_at limit $2
