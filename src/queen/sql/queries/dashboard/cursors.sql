-- Where a group stands in each partition of a queue, at most $3 of them.
select p.name, c.last_consumed_seq from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id
 where c.queue_id = $1 and c.consumer_group = $2 order by p.id limit $3
