-- The names in each partition of a queue, in order: what a message is a copy of, or its own.
select p.name as partition, array_agg(coalesce(m.payload ->> 'of', m.transaction_id, m.id::text) order by m.seq) as names
  from queen.messages m join queen.partitions p on p.id = m.partition_id join queen.queues q on q.id = p.queue_id
 where q.name = $1 group by p.name
