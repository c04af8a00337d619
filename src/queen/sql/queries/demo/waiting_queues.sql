-- Promises: which of the queues named hold messages already.
-- Locks: nothing.
select q.name from queen.queues q
 where q.name = any ($1::text[]) and exists (select from queen.partitions p where p.queue_id = q.id and p.next_seq > 1)
 order by q.name
