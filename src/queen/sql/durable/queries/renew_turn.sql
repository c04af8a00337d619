-- Extends a live lock on an instance.
update queen_durable.mailbox_keys
set locked_until = queen_durable.clock_ms($3) + $2, ready_at = queen_durable.clock_ms($3) + $2
where lock_token = $1 and queue = 'orchestrator' and locked_until > queen_durable.clock_ms($3)
returning routing_key
