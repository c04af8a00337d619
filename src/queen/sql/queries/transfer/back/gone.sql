-- Pairs that there were at the cutover and that are no more: their group was deleted.
select f.former_id, b.consumer_group
  from queen_transfer.baseline b join former_partitions f on f.partition_id = b.partition_id
 where not exists (select from partition_consumers c where c.partition_id = b.partition_id and c.consumer_group = b.consumer_group)
