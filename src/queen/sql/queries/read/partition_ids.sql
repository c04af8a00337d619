-- The partitions of these names in a queue, in the order they are locked.
select p.id, p.name, q.id as queue_id from queen.queues q left join queen.partitions p on p.queue_id = q.id and p.name = any ($2)
 where q.name = $1 order by p.id
