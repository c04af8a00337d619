-- The leases that are out on a queue, those that run out first.
select c.partition_id, p.name as partition_name, c.consumer_group, c.lease_id, c.lease_acquired_at, c.lease_expires_at, c.batch_from, c.batch_to,
       c.last_consumed_seq, c.retry_count
  from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id
 where c.queue_id = $1 and c.ready_at is not null and c.lease_id is not null and c.lease_expires_at > queen.clock()
 order by c.lease_expires_at limit $2
