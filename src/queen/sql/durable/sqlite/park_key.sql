-- Releases a key whose messages wait for something else (a start) to arrive first.
update mailbox_keys set lock_token = null, locked_until = null, ready_at = :ready_at
where queue = :queue and routing_key = :routing_key
