-- Every queue: partitions, messages kept, waiting (for the slowest group) and in work, the oldest waiting, running totals, dead letters.
with numbers as (
    select c.queue_id, count(*) as partitions, sum(c.kept)::bigint as kept, sum(c.waiting)::bigint as waiting,
           sum(c.processing)::bigint as processing, count(*) filter (where c.waiting > 0) as behind
      from queen.count_partitions() c group by c.queue_id
), pushed as (
    select p.queue_id, sum(p.next_seq - 1)::bigint as pushed from queen.partitions p group by p.queue_id
), dead as (
    select d.queue_id, count(*) as dead_letters, count(*) filter (where d.failed_at > (select queen.clock()) - interval '1 hour') as lately
      from queen.dead_letter_queue d where d.redriven_at is null group by d.queue_id
)
select q.id, q.name, q.namespace, q.task, q.paused, q.max_queue_size, coalesce(n.partitions, 0) as partitions, coalesce(n.kept, 0) as kept,
       coalesce(n.waiting, 0) as waiting, coalesce(n.processing, 0) as processing, coalesce(n.behind, 0) as behind,
       coalesce(p.pushed, 0) as pushed, coalesce(d.dead_letters, 0) as dead_letters, coalesce(d.lately, 0) as dead_lately
  from queen.queues q
  left join numbers n on n.queue_id = q.id
  left join pushed p on p.queue_id = q.id
  left join dead d on d.queue_id = q.id
 order by q.name
