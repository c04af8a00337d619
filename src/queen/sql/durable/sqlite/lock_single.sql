-- Hands out the longest-visible message without routing key and hides it until the lock expires.
update mailbox_messages
set lock_token = :token, locked_until = :locked_until, visible_at = :locked_until, attempts = attempts + 1
where id = :id
returning order_at, id, kind, body, attempts
