-- Hands out all visible messages of a locked key and counts the attempt.
update mailbox_messages
set lock_token = :token, attempts = attempts + 1
where queue = :queue and routing_key = :routing_key and visible_at <= :now
returning order_at, id, kind, body, attempts
