-- Which of these leases still hold a partition; they keep it until the transaction ends.
select distinct l.lease_id
  from (select lease_id from queen.partition_consumers
         where lease_id = any ($1) and lease_expires_at > queen.clock()
         order by partition_id, consumer_group for no key update) l
