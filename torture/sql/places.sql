-- The partitions.
select p.id, q.name as queue, p.name as partition, p.first_seq, p.next_seq from queen.partitions p join queen.queues q on q.id = p.queue_id
