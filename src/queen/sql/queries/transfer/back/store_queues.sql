-- The source has the queues of the target, $1: new ones, and options that were changed.
with told as (
    select r->>'name' as name, r->>'namespace' as namespace, r->>'task' as task, (r->>'priority')::integer as priority, (r->>'lease_time')::integer as lease_time,
           (r->>'retry_limit')::integer as retry_limit, (r->>'retry_delay')::integer as retry_delay, (r->>'delayed_processing')::integer as delayed_processing,
           (r->>'window_buffer')::integer as window_buffer, (r->>'retention_enabled')::boolean as retention_enabled,
           (r->>'retention_seconds')::integer as retention_seconds, (r->>'completed_retention_seconds')::integer as completed_retention_seconds,
           (r->>'max_wait_time_seconds')::integer as max_wait_time_seconds, (r->>'encryption_enabled')::boolean as encryption_enabled,
           (r->>'max_queue_size')::integer as max_queue_size, (r->>'created_at')::timestamptz as created_at
      from jsonb_array_elements($1::jsonb) r
)
insert into queues (name, namespace, task, priority, lease_time, retry_limit, retry_delay, delayed_processing, window_buffer, retention_enabled,
                    retention_seconds, completed_retention_seconds, max_wait_time_seconds, encryption_enabled, max_queue_size, created_at)
select * from told
    on conflict (name) do update
   set namespace = excluded.namespace, task = excluded.task, priority = excluded.priority, lease_time = excluded.lease_time,
       retry_limit = excluded.retry_limit, retry_delay = excluded.retry_delay, delayed_processing = excluded.delayed_processing,
       window_buffer = excluded.window_buffer, retention_enabled = excluded.retention_enabled, retention_seconds = excluded.retention_seconds,
       completed_retention_seconds = excluded.completed_retention_seconds, max_wait_time_seconds = excluded.max_wait_time_seconds,
       encryption_enabled = excluded.encryption_enabled, max_queue_size = excluded.max_queue_size
