-- Queues that the source has no more go; $1: the names it has. Their partitions went before.
delete from queues q where not q.name = any ($1::text[]) and not exists (select from partitions p where p.queue_id = q.id)
