-- Which partitions took the place of those that an earlier schema knew by the ids $1.
select former_id, partition_id from queen.former_partitions where former_id = any ($1::uuid[])
