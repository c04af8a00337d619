-- Promises: the names of the partitions asked for and of their queues.
-- Locks: nothing.
select p.id, q.name as queue, p.name as partition
  from (select array(select jsonb_array_elements_text(current_setting('queen.ask')::jsonb -> 'partitions')::bigint) as ids) s
  join queen.partitions p on p.id = any (s.ids)
  join queen.queues q on q.id = p.queue_id
