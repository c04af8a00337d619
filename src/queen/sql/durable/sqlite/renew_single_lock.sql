-- Extends a live lock on a message without routing key.
update mailbox_messages set locked_until = :locked_until, visible_at = :locked_until
where lock_token = :token and locked_until > :now
