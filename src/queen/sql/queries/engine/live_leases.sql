-- Which of these leases still hold a partition.
select distinct lease_id from queen.partition_consumers where lease_id = any ($1) and lease_expires_at > queen.clock()
