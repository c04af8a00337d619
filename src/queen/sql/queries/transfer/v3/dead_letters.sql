-- The dead letters of partitions. $1 former ids, $2 ids.
select w.id, coalesce(d.consumer_group, '__QUEUE_MODE__')::text, d.message_id, coalesce(m.created_at, d.original_created_at, d.failed_at), m.id is null,
       coalesce(d.error_message, ''), coalesce(d.retry_count, 0), coalesce(d.failed_at, now())
  from unnest($1::uuid[], $2::bigint[]) w(former, id)
  join dead_letter_queue d on d.partition_id = w.former
  left join messages m on m.id = d.message_id and m.partition_id = w.former
