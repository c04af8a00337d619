-- The id of a queue's partition Default.
select p.id from queen.partitions p where p.queue_id = $1 and p.name = 'Default'
