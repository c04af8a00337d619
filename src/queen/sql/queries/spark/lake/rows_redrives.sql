-- Promises: the dead letters that were pushed again in [since, until).
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until
      from (select current_setting('queen.ask')::jsonb as j) s
)
select q.name as queue, p.name as partition, d.partition_id, d.consumer_group, d.seq, d.message_id::text as id, d.failed_at, d.redriven_at,
       d.redriven_as::text as redriven_as
  from ask a
  join queen.dead_letter_queue d on d.redriven_at >= a.since and d.redriven_at < a.until
  join queen.queues q on q.id = d.queue_id
  join queen.partitions p on p.id = d.partition_id
