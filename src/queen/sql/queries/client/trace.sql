-- Every message of a trace over all queues, in time order.
select m.id, q.name as queue_name, p.name as partition_name, m.partition_id, coalesce(m.transaction_id, m.id::text) as transaction_id,
       m.parent_id, m.created_at
  from queen.messages m
  join queen.partitions p on p.id = m.partition_id
  join queen.queues q on q.id = p.queue_id
 where m.trace_id = $1
 order by m.created_at, m.pos
 limit 10000
