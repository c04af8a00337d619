-- The lane a lease is on.
select partition_id, batch_to from queen.partition_consumers where lease_id = $1
