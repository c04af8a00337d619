-- Gives a locked item back, visible after $2 ms.
update queen_durable.work_items
set lock_token = null, ready_at = queen_durable.clock_ms($4) + $2, attempts = greatest(0, attempts - $3)
where lock_token = $1 and ready_at > queen_durable.clock_ms($4)
returning ready_at
