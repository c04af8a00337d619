-- How far one group is in each partition, the furthest behind first.
select q.name as queue_name, p.name as partition_name, d.lag, c.total_messages_consumed as consumed, c.last_consumed_at,
       c.lease_id is not null and c.lease_expires_at > queen.clock() as leased,
       coalesce(case when d.lag > 0 then extract(epoch from queen.clock() - m.created_at) end, 0)::double precision as behind
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = c.queue_id
 cross join lateral (select queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as lag) d
  left join queen.messages m on d.lag > 0 and m.partition_id = p.id and m.seq = greatest(c.last_consumed_seq + 1, p.first_seq)
 where c.consumer_group = $1
 order by d.lag desc, q.name, p.name
 limit 10000
