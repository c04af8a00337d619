-- One partition of a group, also when nothing waits in it.
select p.id as partition_id, p.name as partition_name, queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting,
       (select x.created_at from queen.messages x where x.partition_id = p.id and x.seq >= greatest(c.last_consumed_seq + 1, p.first_seq)
         order by x.seq limit 1) as oldest_at,
       c.last_consumed_seq, p.next_seq - 1 as newest_seq, c.last_consumed_at, c.retry_count, c.ready_at, c.total_messages_consumed as consumed,
       case when c.lease_id is not null and c.lease_expires_at > queen.clock() then c.lease_expires_at end as lease_expires_at
  from queen.partitions p join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = $2
 where p.queue_id = $1 and p.name = $3
