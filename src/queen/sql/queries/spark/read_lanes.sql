-- Promises: the messages of each partition asked for with its seq in [from, to), partition by partition in order of seq, with the columns
--   asked for (the others are null); only those created in [since, until), where given.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until
      from (select current_setting('queen.ask')::jsonb as j) s
), lanes as materialized (
    select (l.j ->> 0)::bigint as id, (l.j ->> 1)::bigint as low, (l.j ->> 2)::bigint as high
      from (select current_setting('queen.ask')::jsonb as j) s, jsonb_array_elements(s.j -> 'lanes') l(j)
), wants as materialized (
    select j -> 'columns' ? 'queue' as queue, j -> 'columns' ? 'partition' as partition, j -> 'columns' ? 'partition_id' as partition_id,
           j -> 'columns' ? 'seq' as seq, j -> 'columns' ? 'id' as id, j -> 'columns' ? 'transaction_id' as transaction_id,
           j -> 'columns' ? 'trace_id' as trace_id, j -> 'columns' ? 'parent_id' as parent_id, j -> 'columns' ? 'payload' as payload,
           j -> 'columns' ? 'created_at' as created_at, j -> 'columns' ? 'producer_sub' as producer_sub
      from (select current_setting('queen.ask')::jsonb as j) s
)
select m.pos,
       m.is_encrypted and w.payload as sealed,
       case when w.queue then q.name end as queue,
       case when w.partition then p.name end as partition,
       case when w.partition_id then m.partition_id end as partition_id,
       case when w.seq then m.seq end as seq,
       case when w.id then m.id::text end as id,
       case when w.transaction_id then coalesce(m.transaction_id, m.id::text) end as transaction_id,
       case when w.trace_id then m.trace_id::text end as trace_id,
       case when w.parent_id then m.parent_id::text end as parent_id,
       case when w.payload then m.payload::text end as payload,
       case when w.created_at then m.created_at end as created_at,
       case when w.producer_sub then m.producer_sub end as producer_sub
  from wants w
 cross join lanes l
  join queen.messages m on m.partition_id = l.id and m.seq >= l.low and m.seq < l.high
  join queen.partitions p on p.id = m.partition_id
  join queen.queues q on q.id = p.queue_id
 where m.created_at >= (select since from ask) and m.created_at < (select until from ask)
 order by m.partition_id, m.seq
