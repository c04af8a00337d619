-- The groups of the target.
select q.name, s.consumer_group, s.mode, s.start_at, s.created_at from subscriptions s join queues q on q.id = s.queue_id
