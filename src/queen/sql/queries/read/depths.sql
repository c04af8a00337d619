-- What one group has still to get from one queue, by partition; a group the queue does not know: everything there is.
select q.id as queue_id, p.name as partition_name, queen.lane_depth(p, $2, coalesce(c.last_consumed_seq, 0)) as waiting
  from queen.queues q
  left join queen.partitions p on p.queue_id = q.id
  left join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = $2
 where q.name = $1
 order by p.name
