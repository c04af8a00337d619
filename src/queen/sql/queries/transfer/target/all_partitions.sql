-- The partitions of the target with their names, from $1 on.
select f.former_id, p.id, q.name as queue, p.name as partition, p.next_seq - p.first_seq as messages
  from partitions p join former_partitions f on f.partition_id = p.id join queues q on q.id = p.queue_id
 where p.id > $1 order by p.id limit 500
