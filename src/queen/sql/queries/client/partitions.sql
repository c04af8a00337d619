-- The partitions of a queue, those with the most waiting first.
select p.name, p.next_seq - p.first_seq as total, p.last_activity,
       greatest(p.next_seq - greatest(coalesce(c.passed, 0) + 1, p.first_seq), 0) as depth, coalesce(c.leased, false) as leased
  from queen.partitions p
  join queen.queues q on q.id = p.queue_id
  left join lateral (
    select min(c.last_consumed_seq) as passed, bool_or(c.lease_id is not null and c.lease_expires_at > queen.clock()) as leased
      from queen.partition_consumers c where c.partition_id = p.id
  ) c on true
 where q.name = $1
 order by depth desc, p.name
 limit $2
