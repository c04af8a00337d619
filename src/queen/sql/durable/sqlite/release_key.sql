-- Releases a key; it is ready again when its next message is visible, not before :not_before. :owner has the instance in memory.
update mailbox_keys
set lock_token = null,
    locked_until = null,
    owner = :owner,
    held_until = :not_before,
    ready_at = (
        select max(min(visible_at), :not_before) from mailbox_messages
        where queue = :queue and routing_key = :routing_key
    )
where queue = :queue and routing_key = :routing_key
returning ready_at
