-- The columns the connector reads, as a plain query: what JDBC and the bare ADBC streams are given.
select q.name as queue, p.name as partition, m.partition_id, m.seq, m.id::text as id, coalesce(m.transaction_id, m.id::text) as transaction_id,
       m.trace_id::text as trace_id, m.parent_id::text as parent_id, m.payload::text as payload, m.created_at, m.producer_sub, m.pos
  from queen.messages m
  join queen.partitions p on p.id = m.partition_id
  join queen.queues q on q.id = p.queue_id
 where q.name = 'bench'
