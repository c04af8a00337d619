-- What is left, by partition and group.
select q.name as queue, p.name as partition, c.consumer_group, c.last_consumed_seq, p.first_seq, p.next_seq, c.ready_at, c.lease_id,
       c.lease_expires_at, c.retry_count, c.delivery_count, c.counted_to, clock_timestamp() as now
  from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id join queen.queues q on q.id = p.queue_id
 where queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) > 0 and q.name <> all ($1::text[]) limit 20
