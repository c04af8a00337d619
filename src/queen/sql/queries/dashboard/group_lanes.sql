-- The partitions in which a group has something to get, those that could be handed out longest first; $3 narrows by name.
select p.id as partition_id, p.name as partition_name, queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting, m.created_at as oldest_at,
       c.last_consumed_seq, p.next_seq - 1 as newest_seq, c.last_consumed_at, c.retry_count, c.ready_at, c.total_messages_consumed as consumed,
       case when c.lease_id is not null and c.lease_expires_at > queen.clock() then c.lease_expires_at end as lease_expires_at
  from queen.partition_consumers c
  join queen.partitions p on p.id = c.partition_id
  left join lateral (select x.created_at from queen.messages x
                      where x.partition_id = p.id and x.seq >= greatest(c.last_consumed_seq + 1, p.first_seq) and p.next_seq > x.seq
                      order by x.seq limit 1) m on true
 where c.queue_id = $1 and c.consumer_group = $2 and c.ready_at is not null and ($3::text is null or p.name = $3)
 order by c.ready_at limit $4
