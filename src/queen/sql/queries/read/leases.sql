-- The leases that are live, over the queues that match.
select count(distinct c.lease_id) as active, count(distinct c.partition_id) as partitions,
       coalesce(sum(c.batch_to - c.batch_from + 1), 0)::bigint as batch_size,
       coalesce(sum(greatest(c.last_consumed_seq - c.batch_from + 1, 0)), 0)::bigint as acked
  from queen.partition_consumers c join queen.queues q on q.id = c.queue_id
 where c.lease_id is not null and c.lease_expires_at > queen.clock() and ($1::text is null or q.name = $1)
   and ($2::text is null or q.namespace = $2) and ($3::text is null or q.task = $3)
