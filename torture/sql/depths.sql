-- By queue, counted one by one: messages the slowest group has not passed (what a limit goes by), messages that the group with most to
-- get has still to get in each partition (skipped ones are not for it), and messages kept.
select q.name as queue, coalesce(sum(x.unpassed), 0)::bigint as unpassed, coalesce(sum(x.waiting), 0)::bigint as waiting,
       coalesce(sum(x.kept), 0)::bigint as kept
  from queen.queues q
  left join lateral (
    select count(m.seq) as kept,
           count(m.seq) filter (where m.seq > coalesce(g.slowest, 0) and not exists (
               select from queen.skips k where k.partition_id = p.id and k.seq = m.seq and k.consumer_group = '*')) as unpassed,
           coalesce((select max(lag) from (
               select count(*) filter (where not exists (select from queen.skips k where k.partition_id = p.id and k.seq = w.seq
                                                            and k.consumer_group in ('*', c.consumer_group))) as lag
                 from queen.partition_consumers c join queen.messages w on w.partition_id = p.id and w.seq > c.last_consumed_seq
                where c.partition_id = p.id group by c.consumer_group) lags),
               case when g.groups > 0 then 0 else count(m.seq) end) as waiting
      from queen.partitions p
     cross join lateral (select min(c.last_consumed_seq) as slowest, count(*) as groups
                           from queen.partition_consumers c where c.partition_id = p.id) g
      left join queen.messages m on m.partition_id = p.id
     where p.queue_id = q.id group by p.id, g.slowest, g.groups) x on true
 group by q.name
