-- Dead letters that match every filter given and were not pushed again, newest first.
select d.id, q.name as queue_name, p.name as partition_name, d.consumer_group, d.message_id, d.transaction_id, d.error_message,
       d.retry_count, d.payload, d.is_encrypted, d.created_at, d.failed_at
  from queen.select_dead_letters($1, $2, $3, $4, $5, $6 + $7, false) d
  join queen.queues q on q.id = d.queue_id
  join queen.partitions p on p.id = d.partition_id
 order by d.id desc
 limit $6 offset $7
