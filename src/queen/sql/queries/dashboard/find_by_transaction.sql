-- The messages of a transaction id, in one queue or in any, at most $3: one look-up per partition.
select p.id as partition_id, m.seq
  from queen.partitions p
  join queen.queues q on q.id = p.queue_id
 cross join lateral (select x.seq from queen.messages x
                      where x.partition_id = p.id and x.transaction_id = $2 and x.transaction_id is not null) m
 where ($1::text is null or q.name = $1)
 limit $3
