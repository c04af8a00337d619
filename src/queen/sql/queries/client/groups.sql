-- Every consumer group of every queue: how many messages it has not passed and how old the oldest of them is.
select s.consumer_group, q.name as queue_name, s.mode, count(l.lag) as partitions, count(*) filter (where l.lag > 0) as lagging,
       coalesce(sum(l.lag), 0)::bigint as lag, coalesce(max(l.behind), 0)::double precision as behind
  from queen.subscriptions s
  join queen.queues q on q.id = s.queue_id
  left join lateral (
    select d.lag, case when d.lag > 0 then extract(epoch from queen.clock() - m.created_at) end as behind
      from queen.partitions p
      join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = s.consumer_group
     cross join lateral (select queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as lag) d
      left join queen.messages m
        on d.lag > 0 and m.partition_id = p.id and m.seq = greatest(c.last_consumed_seq + 1, p.first_seq)
     where p.queue_id = q.id
  ) l on true
 group by s.consumer_group, q.name, s.mode
 order by q.name, s.consumer_group
