-- Promises: one partition of a queue with `archive` on of which messages at or after pos `from` were removed since removal number
--   `removed`, if any. Retention does not do that; clearing a queue does.
-- Locks: nothing.
with ask as materialized (
    select (j ->> 'from')::bigint as low, (j ->> 'removed')::bigint as removed, coalesce((j ->> 'lenient')::boolean, false) as lenient
      from (select current_setting('queen.ask')::jsonb as j) s
)
select q.name as queue, p.name as partition, p.first_seq
  from ask a
  join queen.queues q on q.archive and not a.lenient
  join queen.removals r on r.queue_id = q.id and r.pos >= a.low and r.number > a.removed
  join queen.partitions p on p.id = r.partition_id
 limit 1
