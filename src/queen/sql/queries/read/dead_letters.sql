-- A page of dead letters, newest first. $8: also those redriven; $11: after this one (keyset).
select d.id, d.message_id, d.transaction_id, d.partition_id, q.name as queue_name, p.name as partition_name, d.consumer_group,
       d.error_message, d.retry_count, d.payload, d.is_encrypted, d.producer_sub, d.trace_id, d.parent_id, d.seq, d.evicted,
       d.created_at, d.failed_at, d.redriven_at, d.redriven_as
  from queen.dead_letter_queue d
  join queen.queues q on q.id = d.queue_id
  join queen.partitions p on p.id = d.partition_id
 where ($1::text is null or q.name = $1) and ($2::text is null or d.consumer_group = $2) and ($3::text is null or p.name = $3)
   and ($4::text is null or position($4 in d.error_message) > 0)
   and ($5::timestamptz is null or d.failed_at >= $5) and ($6::timestamptz is null or d.failed_at <= $6)
   and ($7::text is null or coalesce(d.error_kind, queen.normalise_error(d.error_message)) = $7)
   and ($8::boolean or d.redriven_at is null)
   and ($11::bigint is null or d.id < $11)
 order by d.id desc
 limit $9 offset $10
