-- Messages wait, nobody has them, and nobody is to be woken for them: never true in any snapshot.
select q.name as queue, p.name as partition, c.consumer_group, queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting
  from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id join queen.queues q on q.id = p.queue_id
 where c.ready_at is null and c.lease_id is null and queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) > 0
