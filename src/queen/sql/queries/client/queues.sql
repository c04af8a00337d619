-- Every queue with its depth, by name. Arithmetic on cursors; no message is counted.
select q.name, q.namespace, q.task, q.paused, q.created_at, d.current_depth as depth,
       p.partitions, p.total, u.leased
  from queen.queues q
  join queen.queue_depths d on d.queue_name = q.name
 cross join lateral (
    select count(*) as partitions, coalesce(sum(p.next_seq - p.first_seq), 0)::bigint as total
      from queen.partitions p where p.queue_id = q.id
 ) p
 cross join lateral (
    select count(*) as leased from queen.partition_consumers c
     where c.queue_id = q.id and c.lease_id is not null and c.lease_expires_at > queen.clock()
 ) u
 order by q.name
