-- Every lane of one group, by queue and partition.
select q.name as queue_name, p.name as partition_name, p.id as partition_id,
       case when c.lease_expires_at > queen.clock() then c.lease_id end as lease_id,
       c.last_consumed_at, c.last_consumed_seq, c.total_messages_consumed, c.retry_count,
       queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting,
       case when m.created_at is not null then greatest(floor(extract(epoch from queen.clock() - m.created_at)), 0)::bigint end as lag_seconds
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
  join queen.queues q on q.id = c.queue_id
  left join lateral (select x.created_at from queen.messages x
                      where x.partition_id = p.id and x.seq >= greatest(c.last_consumed_seq + 1, p.first_seq) and p.next_seq > x.seq
                      order by x.seq limit 1) m on true
 where c.consumer_group = $1 and ($2::text is null or q.name = $2)
 order by q.name, p.name
 limit $3
