-- The dead letters of the partitions $1 are those that arrived (incoming_dead_letters), with a copy of their message where it is still there.
with old as (delete from dead_letter_queue d where d.partition_id = any ($1::bigint[]))
insert into dead_letter_queue (queue_id, partition_id, consumer_group, seq, message_id, transaction_id, trace_id, payload, is_encrypted,
                               producer_sub, created_at, error_message, retry_count, failed_at)
select p.queue_id, i.partition_id, i.consumer_group, coalesce(m.seq, 0), i.message_id, coalesce(m.transaction_id, i.message_id::text),
       m.trace_id, coalesce(m.payload, 'null'), coalesce(m.is_encrypted, false), m.producer_sub, i.created_at, i.error_message,
       i.retry_count, i.failed_at
  from incoming_dead_letters i
  join partitions p on p.id = i.partition_id
  left join messages m on m.partition_id = i.partition_id and m.id = i.message_id and not i.gone
 order by i.failed_at, i.message_id
