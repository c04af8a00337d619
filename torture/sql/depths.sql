-- Messages that the slowest group has not passed, counted one by one, and messages kept.
select q.name as queue, coalesce(sum(x.waiting), 0)::bigint as depth, coalesce(sum(x.kept), 0)::bigint as total
  from queen.queues q
  left join lateral (
    select (select count(*) from queen.messages m where m.partition_id = p.id and m.seq > coalesce(
                (select min(c.last_consumed_seq) from queen.partition_consumers c where c.partition_id = p.id), 0)
              and not exists (select from queen.skips k where k.partition_id = p.id and k.seq = m.seq and k.consumer_group = '*')) as waiting,
           (select count(*) from queen.messages m where m.partition_id = p.id) as kept
      from queen.partitions p where p.queue_id = q.id) x on true
 group by q.name
