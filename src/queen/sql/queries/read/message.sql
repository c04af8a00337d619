-- One message with its queue, and its newest dead letter if there is one.
select m.partition_id, m.seq, m.id as message_id, coalesce(m.transaction_id, m.id::text) as transaction_id, m.trace_id, m.parent_id,
       m.producer_sub, m.created_at, m.is_encrypted, m.payload, p.name as partition_name, q.name as queue_name, q.namespace, q.task,
       q.priority, q.lease_time, q.retry_limit, q.retry_delay, q.ttl, dead.error_message, dead.retry_count, dead.id as dead_letter_id
  from queen.messages m
  join queen.partitions p on p.id = m.partition_id
  join queen.queues q on q.id = p.queue_id
  left join lateral (select d.id, d.error_message, d.retry_count from queen.dead_letter_queue d
                      where d.partition_id = m.partition_id and d.seq = m.seq and d.redriven_at is null
                      order by d.id desc limit 1) dead on true
 where m.partition_id = $1 and m.seq = queen.find_message($1, $2)
