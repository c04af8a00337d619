-- Promises: for each partition in the lake: all its messages, those the database still keeps (from first_seq on) with their checksum, what
--   is there twice, and what is missing between the first and the last. `kept` has the partitions of the database. (DuckDB)
-- Locks: nothing.
select m.partition_id, any_value(m.queue) as queue, any_value(m.partition) as partition, count(*) as n,
       count(*) filter (where m.seq >= k.first_seq) as kept,
       coalesce(sum(('0x' || substr(md5(concat_ws(':', m.id, m.seq, m.transaction_id, epoch_us(m.created_at), m.payload)), 1, 15))::bigint)
                filter (where m.seq >= k.first_seq), 0)::varchar as checksum,
       count(*) - count(distinct m.seq) as twice, max(m.seq) - min(m.seq) + 1 - count(distinct m.seq) as missing
  from messages m
  left join kept k on k.partition_id = m.partition_id
 group by m.partition_id
 order by m.partition_id
