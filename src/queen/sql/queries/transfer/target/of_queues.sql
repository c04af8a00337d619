-- The copied partitions of the queues $1.
select f.former_id, f.partition_id as id
  from partitions p join former_partitions f on f.partition_id = p.id join queen_transfer.progress g on g.former_id = f.former_id
 where p.queue_id = any ($1::bigint[]) and g.copied
