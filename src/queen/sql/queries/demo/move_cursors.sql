-- Promises: each lane is where its group left it: cursor and totals as given, ready now where messages wait, else not.
-- Locks: the consumer rows; the caller holds the partition rows (R1).
update queen.partition_consumers c
   set last_consumed_seq = l.cursor, last_consumed_at = l.consumed_at, total_messages_consumed = l.consumed,
       total_batches_consumed = l.batches, total_messages_delivered = l.delivered, total_messages_failed = l.failed,
       ready_at = case when p.next_seq > l.cursor + 1 then queen.clock() end
  from unnest($1::bigint[], $2::text[], $3::bigint[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])
       l(partition_id, consumer_group, cursor, consumed_at, consumed, batches, delivered, failed)
  join queen.partitions p on p.id = l.partition_id
 where c.partition_id = l.partition_id and c.consumer_group = l.consumer_group
