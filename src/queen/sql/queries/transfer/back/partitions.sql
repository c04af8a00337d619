-- The partitions of the target by the ids of the earlier schema.
select f.former_id, q.name, p.name, p.created_at, p.last_activity
  from partitions p join queues q on q.id = p.queue_id join former_partitions f on f.partition_id = p.id
