-- Tasks with their numbers, by name.
select q.task as name, count(distinct q.id) as queues, count(c.partition_id) as partitions,
       coalesce(sum(c.kept), 0)::bigint as kept, coalesce(sum(c.waiting), 0)::bigint as waiting
  from queen.queues q left join queen.count_partitions() c on c.queue_id = q.id
 where q.task <> '' group by q.task order by q.task
