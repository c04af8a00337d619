-- How much there is.
select 'queues' as what, count(*) as count from queues
union all select 'partitions', count(*) from partitions
union all select 'messages', count(*) from messages
union all select 'cursors', count(*) from partition_consumers
union all select 'leases', count(*) from partition_consumers where worker_id is not null and lease_expires_at > now()
union all select 'subscriptions', count(*) from consumer_groups_metadata
union all select 'dead letters', count(*) from dead_letter_queue
union all select 'traces', count(*) from message_traces
