-- Promises: partitions of the queues (those named, or all) with the range of seq they hold.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues, j -> 'names' as names, j -> 'ids' as ids
      from (select current_setting('queen.ask')::jsonb as j) s
)
select p.id, q.name as queue, p.name, p.first_seq, p.next_seq
  from ask a
  join queen.partitions p on p.queue_id = any (a.queues)
  join queen.queues q on q.id = p.queue_id
 where (a.names is null or p.name in (select jsonb_array_elements_text(a.names)))
   and (a.ids is null or p.id in (select jsonb_array_elements_text(a.ids)::bigint))
 order by p.id
