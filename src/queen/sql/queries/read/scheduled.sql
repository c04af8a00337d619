-- Messages that wait for their time, the next one first. $3 and $4: after this place (keyset).
select m.id, q.name as queue_name, m.partition_name, m.deliver_at, coalesce(m.transaction_id, m.id::text) as transaction_id, m.trace_id,
       m.parent_id, m.payload, m.is_encrypted, m.producer_sub, m.created_at
  from queen.scheduled_messages m join queen.queues q on q.id = m.queue_id
 where ($1::text is null or q.name = $1) and ($3::timestamptz is null or (m.deliver_at, m.id) > ($3, $4::uuid))
 order by m.deliver_at, m.id
 limit $2
