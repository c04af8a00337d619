-- Moves a group's cursors to a share of each partition. Only for measuring at depth.
update queen.partition_consumers c set last_consumed_seq = floor((p.next_seq - 1) * $3::float8), ready_at = now()
  from queen.partitions p join queen.queues q on q.id = p.queue_id
 where c.partition_id = p.id and q.name = $1::text and c.consumer_group = $2::text
