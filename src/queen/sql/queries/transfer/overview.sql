-- Facts about the source that belong to no partition: its queues with their options, and its partitions by name.
select 'queue' as kind, q.name::text as name,
       concat_ws(', ', 'namespace ' || coalesce(r->>'namespace', ''), 'task ' || coalesce(r->>'task', ''), 'priority ' || coalesce(r->>'priority', '0'),
                 'lease_time ' || coalesce(r->>'lease_time', '300'), 'retry_limit ' || coalesce(r->>'retry_limit', '3'),
                 'retry_delay ' || coalesce(r->>'retry_delay', '0'), 'delayed_processing ' || coalesce(r->>'delayed_processing', '0'),
                 'window_buffer ' || coalesce(r->>'window_buffer', '0'), 'retention ' || coalesce(r->>'retention_enabled', 'false') || ' '
                 || coalesce(r->>'retention_seconds', '0') || ' ' || coalesce(r->>'completed_retention_seconds', '0'),
                 'max_wait ' || coalesce(r->>'max_wait_time_seconds', '0'), 'encryption ' || coalesce(r->>'encryption_enabled', 'false'),
                 'max_queue_size ' || coalesce(r->>'max_queue_size', '0')) as value
  from queues q cross join lateral (select to_jsonb(q) as r) j
union all
select 'partition', q.name || '/' || p.name, p.id::text from partitions p join queues q on q.id = p.queue_id
