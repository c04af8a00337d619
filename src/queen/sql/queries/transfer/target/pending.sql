-- The next partitions to copy, in the order of their ids, from $1 on.
select f.former_id, f.partition_id as id, g.expected
  from queen_transfer.progress g join former_partitions f on f.former_id = g.former_id
 where not g.copied and f.partition_id > $1 order by f.partition_id limit 500
