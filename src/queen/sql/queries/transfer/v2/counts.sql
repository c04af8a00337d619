-- How much there is.
select 'queues' as what, count(*) as count from queues
union all select 'partitions', count(*) from partitions
union all select 'messages', count(*) from messages
union all select 'status rows', count(*) from messages_status
union all select 'cursors', count(*) from partition_cursors
union all select 'leases', count(*) from partition_leases where released_at is null and lease_expires_at > now()
union all select 'subscriptions', count(*) from consumer_groups
union all select 'dead letters', count(*) from dead_letter_queue
