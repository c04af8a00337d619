-- Takes the lock on a key, replacing an expired one.
update mailbox_keys
set lock_token = :token, locked_until = :locked_until, ready_at = :locked_until, held_until = null
where queue = :queue and routing_key = :routing_key
