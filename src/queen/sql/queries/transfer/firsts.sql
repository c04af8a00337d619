-- The first message of each partition that has any. $1 former ids, $2 ids.
select w.id, m.created_at, m.id as message_id
  from unnest($1::uuid[], $2::bigint[]) w(former, id)
  left join lateral (select x.created_at, x.id from messages x where x.partition_id = w.former order by x.created_at, x.id limit 1) m on true
