-- The same facts about the target, and its groups.
select 'queue' as kind, q.name,
       concat_ws(', ', 'namespace ' || q.namespace, 'task ' || q.task, 'priority ' || q.priority, 'lease_time ' || q.lease_time, 'retry_limit ' || q.retry_limit,
                 'retry_delay ' || q.retry_delay, 'delayed_processing ' || q.delayed_processing, 'window_buffer ' || q.window_buffer,
                 'retention ' || q.retention_enabled || ' ' || q.retention_seconds || ' ' || q.completed_retention_seconds,
                 'max_wait ' || q.max_wait_time_seconds, 'encryption ' || q.encryption_enabled, 'max_queue_size ' || q.max_queue_size) as value
  from queues q
union all
select 'partition', q.name || '/' || p.name, f.former_id::text
  from partitions p join queues q on q.id = p.queue_id left join former_partitions f on f.partition_id = p.id
union all
select 'group', q.name || '/' || s.consumer_group, s.mode from subscriptions s join queues q on q.id = s.queue_id
