-- Raw multi-row INSERT: what storing the same rows costs with no queue around it.
insert into bare.messages (partition_id, seq, pos, id, created_at, transaction_id, payload)
select p, s, s, i, now(), t, j from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[], $5::jsonb[]) x(p, s, i, t, j)
