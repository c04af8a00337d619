-- How many messages there are after a position in each partition, at most $4 of each. $1 former ids, $2 and $3 positions.
select coalesce(sum(m.count), 0)::bigint
  from unnest($1::uuid[], $2::timestamptz[], $3::uuid[]) w(former, after_at, after_id)
 cross join lateral (
    select count(*) as count
      from (select from messages x where x.partition_id = w.former and (x.created_at, x.id) > (w.after_at, w.after_id) limit $4::bigint) n) m
