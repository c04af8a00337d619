-- Every pair that is not as it was at the cutover: where the group is, what it finished beyond, its lease.
select f.former_id, c.consumer_group, l.id, n.id, nullif(p.last_created_at, '-infinity'),
       (select array_agg(m.id) from skips s join messages m on m.partition_id = s.partition_id and m.seq = s.seq
         where s.partition_id = c.partition_id and s.consumer_group = c.consumer_group and s.seq > c.last_consumed_seq),
       c.lease_id::text, c.lease_expires_at, c.lease_acquired_at,
       case when c.lease_id is not null then (select array_agg(m.id order by m.seq) from messages m where m.partition_id = c.partition_id
                                                 and m.seq between greatest(c.batch_from, c.last_consumed_seq + 1) and c.batch_to) end,
       c.retry_count, c.total_messages_consumed, c.total_batches_consumed, c.last_consumed_at
  from partition_consumers c
  join partitions p on p.id = c.partition_id
  join former_partitions f on f.partition_id = c.partition_id
  left join queen_transfer.baseline b on b.partition_id = c.partition_id and b.consumer_group = c.consumer_group
  left join lateral (select m.id from messages m where m.partition_id = c.partition_id and m.seq <= c.last_consumed_seq order by m.seq desc limit 1) l on true
  left join lateral (select m.id from messages m where m.partition_id = c.partition_id and m.seq > c.last_consumed_seq order by m.seq limit 1) n on true
 where (b.last_consumed_seq, b.lease_id, b.lease_expires_at, b.batch_to, b.retry_count, b.total_messages_consumed)
       is distinct from (c.last_consumed_seq, c.lease_id, c.lease_expires_at, c.batch_to, c.retry_count, c.total_messages_consumed)
