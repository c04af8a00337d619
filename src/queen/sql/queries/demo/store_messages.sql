-- Promises: stores messages of the past in the order given, so that pos grows with time and with seq.
-- Locks: nothing more than the caller holds (the partition rows). The caller has announced itself.
insert into queen.messages (partition_id, seq, pos, id, trace_id, parent_id, created_at, payload)
select i.partition_id, i.seq, nextval('queen.message_pos'), i.id, i.trace_id, i.parent_id, i.created_at, i.payload::jsonb
  from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::uuid[], $5::uuid[], $6::timestamptz[], $7::text[])
       i(partition_id, seq, id, trace_id, parent_id, created_at, payload)
