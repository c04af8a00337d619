-- The message of an id whose time ($3) is known, in one queue or in any: a look-up in each partition that was used since.
select p.id as partition_id, m.seq
  from queen.partitions p
  join queen.queues q on q.id = p.queue_id
 cross join lateral (select x.seq from queen.messages x
                      where x.partition_id = p.id and x.seq > queen.seq_at(p.id, $3::timestamptz - interval '1 minute') and x.id = $2::uuid
                      order by x.seq limit 1) m
 where ($1::text is null or q.name = $1) and p.last_created_at >= $3::timestamptz - interval '1 minute' and p.created_at <= $3::timestamptz + interval '1 minute'
 limit 1
