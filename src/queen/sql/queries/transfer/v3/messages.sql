-- The messages of partitions after a position each, in order and with their seq: at most $7 of each. $1 former ids, $2 ids, $3 last seqs,
-- $4 and $5 positions, $6 the last pos.
select w.id, w.base + row_number() over (partition by w.id order by m.created_at, m.id),
       $6::bigint + row_number() over (order by w.id, m.created_at, m.id), m.id, m.trace_id, null::uuid, m.created_at,
       coalesce(m.is_encrypted, false), m.transaction_id::text, m.producer_sub, coalesce(m.payload, 'null')
  from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::uuid[]) w(former, id, base, after_at, after_id)
 cross join lateral (
    select x.* from messages x
     where x.partition_id = w.former and (x.created_at, x.id) > (w.after_at, w.after_id)
     order by x.created_at, x.id limit $7::bigint) m
