-- Every message of a trace id over all queues, in time order.
select m.partition_id, m.seq, m.id as message_id, coalesce(m.transaction_id, m.id::text) as transaction_id, m.parent_id, m.created_at,
       m.payload, m.is_encrypted, m.producer_sub, q.name as queue_name, p.name as partition_name
  from queen.messages m
  join queen.partitions p on p.id = m.partition_id
  join queen.queues q on q.id = p.queue_id
 where m.trace_id = $1
 order by m.created_at, m.pos limit $2
