-- One dead letter.
select d.id, d.message_id, d.transaction_id, d.partition_id, q.name as queue_name, p.name as partition_name, d.consumer_group,
       d.error_message, d.retry_count, d.payload, d.is_encrypted, d.producer_sub, d.trace_id, d.parent_id, d.seq, d.evicted,
       d.created_at, d.failed_at, d.redriven_at, d.redriven_as
  from queen.dead_letter_queue d
  join queen.queues q on q.id = d.queue_id
  join queen.partitions p on p.id = d.partition_id
 where d.id = $1
