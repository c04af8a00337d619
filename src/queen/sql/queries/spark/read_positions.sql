-- Promises: the messages of the queues with from <= pos < to, with the columns asked for (the others are null); only those created in
--   [since, until) and at or after the seq given for their partition, where given. In order of pos unless the planner finds a better
--   way, so the reader looks: sorting here would copy every row. The range is read from settings, which the planner can estimate by.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until,
           j -> 'starts' as starts
      from (select current_setting('queen.ask')::jsonb as j) s
), lanes as materialized (
    select p.id, p.name, q.name as queue
      from queen.partitions p join queen.queues q on q.id = p.queue_id
     where p.queue_id = any (current_setting('queen.ask_queues')::bigint[])
), wants as materialized (
    select j -> 'columns' ? 'queue' as queue, j -> 'columns' ? 'partition' as partition, j -> 'columns' ? 'partition_id' as partition_id,
           j -> 'columns' ? 'seq' as seq, j -> 'columns' ? 'id' as id, j -> 'columns' ? 'transaction_id' as transaction_id,
           j -> 'columns' ? 'trace_id' as trace_id, j -> 'columns' ? 'parent_id' as parent_id, j -> 'columns' ? 'payload' as payload,
           j -> 'columns' ? 'created_at' as created_at, j -> 'columns' ? 'producer_sub' as producer_sub
      from (select current_setting('queen.ask')::jsonb as j) s
)
select m.pos,
       m.is_encrypted and (select payload from wants) as sealed,
       case when (select queue from wants) then l.queue end as queue,
       case when (select partition from wants) then l.name end as partition,
       case when (select partition_id from wants) then m.partition_id end as partition_id,
       case when (select seq from wants) then m.seq end as seq,
       case when (select id from wants) then m.id::text end as id,
       case when (select transaction_id from wants) then coalesce(m.transaction_id, m.id::text) end as transaction_id,
       case when (select trace_id from wants) then m.trace_id::text end as trace_id,
       case when (select parent_id from wants) then m.parent_id::text end as parent_id,
       case when (select payload from wants) then m.payload::text end as payload,
       case when (select created_at from wants) then m.created_at end as created_at,
       case when (select producer_sub from wants) then m.producer_sub end as producer_sub
  from queen.messages m
  join lanes l on l.id = m.partition_id
 where m.pos >= current_setting('queen.ask_from')::bigint and m.pos < current_setting('queen.ask_to')::bigint
   and m.created_at >= (select since from ask) and m.created_at < (select until from ask)
   and ((select starts from ask) is null or m.seq >= coalesce(((select starts from ask) ->> m.partition_id::text)::bigint, 0))
