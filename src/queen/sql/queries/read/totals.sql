-- Every queue with its running totals and its depth: what the live view compares from moment to moment.
with numbers as (
    select c.queue_id, sum(c.waiting)::bigint as waiting, sum(c.processing)::bigint as processing from queen.count_partitions() c
     group by c.queue_id
), pushed as (
    select p.queue_id, sum(p.next_seq - 1)::bigint as pushed from queen.partitions p group by p.queue_id
), used as (
    select c.queue_id, sum(c.total_messages_consumed)::bigint as acked, sum(c.total_messages_delivered)::bigint as popped
      from queen.partition_consumers c group by c.queue_id
), dead as (
    select d.queue_id, count(*) as dead_letters from queen.dead_letter_queue d where d.redriven_at is null group by d.queue_id
)
select q.id, q.name, q.paused, coalesce(n.waiting, 0) as waiting, coalesce(n.processing, 0) as processing,
       coalesce(p.pushed, 0) as pushed, coalesce(u.popped, 0) as popped, coalesce(u.acked, 0) as acked,
       coalesce(d.dead_letters, 0) as dead_letters
  from queen.queues q
  left join numbers n on n.queue_id = q.id
  left join pushed p on p.queue_id = q.id
  left join used u on u.queue_id = q.id
  left join dead d on d.queue_id = q.id
 order by q.name
