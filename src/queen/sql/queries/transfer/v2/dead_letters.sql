-- The dead letters of partitions: the rows there are, and messages whose status says failed or dead_letter without one. $1 former ids, $2 ids.
select w.id, coalesce(d.consumer_group, '__QUEUE_MODE__')::text, d.message_id, coalesce(m.created_at, d.original_created_at, d.failed_at), m.id is null,
       coalesce(d.error_message, ''), coalesce(d.retry_count, 0), coalesce(d.failed_at, now())
  from unnest($1::uuid[], $2::bigint[]) w(former, id)
  join dead_letter_queue d on d.partition_id = w.former
  left join messages m on m.id = d.message_id and m.partition_id = w.former
union all
select w.id, coalesce(s.consumer_group, '__QUEUE_MODE__')::text, m.id, m.created_at, false, coalesce(max(s.error_message), ''),
       coalesce(max(s.retry_count), 0), coalesce(max(s.failed_at), max(s.completed_at), m.created_at)
  from unnest($1::uuid[], $2::bigint[]) w(former, id)
  join messages m on m.partition_id = w.former
  join messages_status s on s.message_id = m.id and s.status in ('failed', 'dead_letter')
 where not exists (select from dead_letter_queue d
                    where d.message_id = m.id and coalesce(d.consumer_group, '__QUEUE_MODE__') = coalesce(s.consumer_group, '__QUEUE_MODE__'))
 group by w.id, coalesce(s.consumer_group, '__QUEUE_MODE__'), m.id, m.created_at
