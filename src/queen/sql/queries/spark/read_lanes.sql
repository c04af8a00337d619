-- Promises: the messages of each partition asked for with its seq in [from, to), partition by partition in order of seq, with the columns
--   asked for (the others are null); only those created in [since, until), where given.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, coalesce((j ->> 'until')::timestamptz, 'infinity') as until
      from (select current_setting('queen.ask')::jsonb as j) s
), lanes as materialized (
    select p.id, p.name, q.name as queue, (l.j ->> 1)::bigint as low, (l.j ->> 2)::bigint as high
      from (select current_setting('queen.ask')::jsonb as j) s
     cross join jsonb_array_elements(s.j -> 'lanes') l(j)
      join queen.partitions p on p.id = (l.j ->> 0)::bigint
      join queen.queues q on q.id = p.queue_id
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
  from lanes l
  join queen.messages m on m.partition_id = l.id and m.seq >= l.low and m.seq < l.high
 where m.created_at >= (select since from ask) and m.created_at < (select until from ask)
 order by m.partition_id, m.seq
