-- Promises: one partition of the queues of which messages at or after pos `from` were removed since removal number `removed`, if any; what
--   lies before the seq given for its partition (`starts`) was not to be read.
-- Locks: nothing.
with ask as materialized (
    select array(select jsonb_array_elements_text(j -> 'queues')::bigint) as queues, (j ->> 'from')::bigint as low,
           (j ->> 'removed')::bigint as removed, j -> 'starts' as starts
      from (select current_setting('queen.ask')::jsonb as j) s
)
select q.name as queue, p.name as partition, p.first_seq
  from ask a
  join queen.removals r on r.queue_id = any (a.queues) and r.pos >= a.low and r.number > a.removed
  join queen.partitions p on p.id = r.partition_id and p.first_seq > coalesce((a.starts ->> p.id::text)::bigint, 0)
  join queen.queues q on q.id = p.queue_id
 limit 1
