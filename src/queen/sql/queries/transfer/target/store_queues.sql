-- The target has the queues of the source, $1, with their options as they are now.
with told as (
    select r->>'name' as name, coalesce(r->>'namespace', '') as namespace, coalesce(r->>'task', '') as task,
           coalesce((r->>'priority')::integer, 0) as priority, greatest(coalesce((r->>'lease_time')::integer, 300), 0) as lease_time,
           greatest(coalesce((r->>'retry_limit')::integer, 3), 0) as retry_limit,
           greatest(coalesce((r->>'retry_delay')::integer, 0), 0) as retry_delay,
           greatest(coalesce((r->>'delayed_processing')::integer, 0), 0) as delayed_processing,
           greatest(coalesce((r->>'window_buffer')::integer, 0), 0) as window_buffer,
           coalesce((r->>'retention_enabled')::boolean, false) as retention_enabled,
           greatest(coalesce((r->>'retention_seconds')::integer, 0), 0) as retention_seconds,
           greatest(coalesce((r->>'completed_retention_seconds')::integer, 0), 0) as completed_retention_seconds,
           greatest(coalesce((r->>'max_wait_time_seconds')::integer, 0), 0) as max_wait_time_seconds,
           coalesce((r->>'encryption_enabled')::boolean, false) as encryption_enabled,
           greatest(coalesce((r->>'max_queue_size')::integer, 0), 0) as max_queue_size, coalesce((r->>'ttl')::integer, 3600) as ttl,
           coalesce((r->>'dead_letter_queue')::boolean, false) as dead_letter_queue,
           coalesce((r->>'dlq_after_max_retries')::boolean, false) as dlq_after_max_retries,
           coalesce((r->>'created_at')::timestamptz, now()) as created_at
      from jsonb_array_elements($1::jsonb) r
)
insert into queues (name, namespace, task, priority, lease_time, retry_limit, retry_delay, delayed_processing, window_buffer,
                    retention_enabled, retention_seconds, completed_retention_seconds, max_wait_time_seconds, encryption_enabled,
                    max_queue_size, ttl, dead_letter_queue, dlq_after_max_retries, created_at)
select t.name, t.namespace, t.task, t.priority, t.lease_time, t.retry_limit, t.retry_delay, t.delayed_processing, t.window_buffer,
       t.retention_enabled, t.retention_seconds, t.completed_retention_seconds, t.max_wait_time_seconds, t.encryption_enabled,
       t.max_queue_size, t.ttl, t.dead_letter_queue, t.dlq_after_max_retries, t.created_at
  from told t order by t.name
    on conflict (name) do update
   set namespace = excluded.namespace, task = excluded.task, priority = excluded.priority, lease_time = excluded.lease_time,
       retry_limit = excluded.retry_limit, retry_delay = excluded.retry_delay, delayed_processing = excluded.delayed_processing,
       window_buffer = excluded.window_buffer, retention_enabled = excluded.retention_enabled,
       retention_seconds = excluded.retention_seconds, completed_retention_seconds = excluded.completed_retention_seconds,
       max_wait_time_seconds = excluded.max_wait_time_seconds, encryption_enabled = excluded.encryption_enabled,
       max_queue_size = excluded.max_queue_size, ttl = excluded.ttl, dead_letter_queue = excluded.dead_letter_queue,
       dlq_after_max_retries = excluded.dlq_after_max_retries
