-- Every pair of the partitions $1 and the groups their queues know.
select f.former_id, p.id, p.queue_id, s.consumer_group
  from partitions p join former_partitions f on f.partition_id = p.id join subscriptions s on s.queue_id = p.queue_id
 where p.id = any ($1::bigint[])
