-- Queues an activity, visible at once.
insert into queen_durable.work_items
    (instance, execution_id, activity_id, name, session_id, tag, priority, body, limited, ready_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb, queen_durable.clock_ms($10))
