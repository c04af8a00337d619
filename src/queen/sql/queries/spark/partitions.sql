-- Promises: the partitions of the queues with the range of seq they hold.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues
      from (select current_setting('queen.ask')::jsonb as j) s
)
select p.id, q.name as queue, p.name, p.first_seq, p.next_seq
  from ask a
  join queen.partitions p on p.queue_id = any (a.queues)
  join queen.queues q on q.id = p.queue_id
 order by p.id
