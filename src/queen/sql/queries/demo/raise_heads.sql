-- Promises: next_seq and the times of each partition are those of the messages just stored.
-- Locks: nothing more than the caller holds (the partition rows).
update queen.partitions p
   set next_seq = h.next_seq, last_created_at = h.last_created_at, last_activity = h.last_created_at,
       oldest_at = least(p.oldest_at, h.first_created_at), idle_since = null,
       created_at = least(p.created_at, h.first_created_at)
  from unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[]) h(id, next_seq, first_created_at, last_created_at)
 where p.id = h.id
