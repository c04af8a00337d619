-- Promises: the messages of one partition from a seq on, each with its hash. (DuckDB)
-- Locks: nothing.
select m.seq, m.id, ('0x' || substr(md5(concat_ws(':', m.id, m.seq, m.transaction_id, epoch_us(m.created_at), m.payload)), 1, 15))::bigint as hash
  from messages m where m.partition_id = $1 and m.seq >= $2 order by m.seq
