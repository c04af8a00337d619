-- Messages stored since the cutover, with pos above $1 and below $2, at most $3.
select f.former_id, m.seq, m.id, coalesce(m.transaction_id, m.id::text), m.trace_id, m.payload, m.created_at, m.is_encrypted, m.producer_sub
  from (select x.* from messages x where x.pos > $1::bigint and x.pos < $2::bigint order by x.pos limit $3::bigint) m
  join former_partitions f on f.partition_id = m.partition_id
