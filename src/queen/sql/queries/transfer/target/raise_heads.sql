-- The partitions $1 know their messages: next seq, times of the first and the last.
update partitions p
   set next_seq = greatest(p.next_seq, coalesce(l.seq + 1, p.next_seq)), last_created_at = coalesce(l.created_at, p.last_created_at),
       oldest_at = f.created_at, idle_since = case when f.created_at is null then p.last_activity end
  from unnest($1::bigint[]) n(id)
  left join lateral (select m.seq, m.created_at from messages m where m.partition_id = n.id order by m.seq desc limit 1) l on true
  left join lateral (select m.created_at from messages m where m.partition_id = n.id order by m.seq limit 1) f on true
 where p.id = n.id
