-- Which of the partitions $1 (former ids) the target has, and whether they are copied.
select f.former_id, f.partition_id as id, p.queue_id, g.copied
  from former_partitions f join queen_transfer.progress g on g.former_id = f.former_id join partitions p on p.id = f.partition_id
 where f.former_id = any ($1::uuid[])
