-- The story of one message: every batch it was handed out in, oldest first, and the one it is in now.
select d.consumer_group, d.lease_id, d.batch_from, d.batch_to, d.leased_at, d.ended_at, d.outcome, d.retry_count, d.failed
  from queen.deliveries d where d.partition_id = $1 and d.batch_from <= $2 and d.batch_to >= $2 and d.batch_to < $2 + 100000
 union all
select c.consumer_group, c.lease_id, c.batch_from, c.batch_to, c.lease_acquired_at, null, 'leased', c.retry_count, 0
  from queen.partition_consumers c
 where c.partition_id = $1 and c.lease_id is not null and c.lease_expires_at > queen.clock() and $2 between c.batch_from and c.batch_to
 order by leased_at
 limit 1000
