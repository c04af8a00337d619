-- The batches these messages were handed out in, and the ones they are in now, oldest first.
select n.partition_id, n.seq, d.consumer_group, d.lease_id, d.batch_from, d.batch_to, d.leased_at, d.ended_at, d.outcome, d.retry_count,
       d.failed
  from unnest($1::bigint[], $2::bigint[]) n(partition_id, seq)
 cross join lateral (
    select l.consumer_group, l.lease_id, l.batch_from, l.batch_to, l.leased_at, l.ended_at, l.outcome, l.retry_count, l.failed
      from queen.deliveries l
     where l.partition_id = n.partition_id and l.batch_from <= n.seq and l.batch_to >= n.seq and l.batch_to < n.seq + 100000
     union all
    select c.consumer_group, c.lease_id, c.batch_from, c.batch_to, c.lease_acquired_at, null, 'leased', c.retry_count, 0
      from queen.partition_consumers c
     where c.partition_id = n.partition_id and c.lease_id is not null and c.lease_expires_at > queen.clock()
       and n.seq between c.batch_from and c.batch_to
 ) d
 order by d.leased_at
