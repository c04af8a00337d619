-- Dead letters not yet redriven, over the queues that match.
select count(*) as total, count(distinct d.partition_id) as partitions
  from queen.dead_letter_queue d join queen.queues q on q.id = d.queue_id
 where d.redriven_at is null and ($1::text is null or q.name = $1) and ($2::text is null or q.namespace = $2)
   and ($3::text is null or q.task = $3)
