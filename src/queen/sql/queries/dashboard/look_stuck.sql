-- The partitions in which a message has kept a group waiting for $1 seconds or more, the longest first: who holds it, how often it failed.
select w.queue_id, w.partition_id, w.partition_name, w.consumer_group, w.waiting, w.oldest_at, c.ready_at,
       case when c.counted_to >= m.seq then c.retry_count else 0 end as retry_count,
       case when c.lease_id is not null and c.lease_expires_at > queen.clock() then c.lease_expires_at end as lease_expires_at,
       case when c.lease_id is not null and c.lease_expires_at > queen.clock() then c.lease_acquired_at end as lease_acquired_at,
       m.seq, coalesce(m.transaction_id, m.id::text) as transaction_id
  from (select * from queen.waiting_lanes() x where x.oldest_at <= queen.clock() - make_interval(secs => $1::double precision)
         order by x.oldest_at limit $2) w
  join queen.partition_consumers c on c.partition_id = w.partition_id and c.consumer_group = w.consumer_group
  join queen.partitions p on p.id = w.partition_id
 cross join lateral (select x.seq, x.transaction_id, x.id from queen.messages x
                      where x.partition_id = w.partition_id and x.seq >= greatest(c.last_consumed_seq + 1, p.first_seq)
                        and not (p.has_skips and exists (select from queen.skips k where k.partition_id = x.partition_id and k.seq = x.seq
                                                                                  and k.consumer_group in ('*', w.consumer_group)))
                      order by x.seq limit 1) m
 order by w.oldest_at
