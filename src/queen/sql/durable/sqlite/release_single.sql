-- Gives a message without routing key back, visible from :visible_at.
update mailbox_messages
set lock_token = null, locked_until = null, visible_at = :visible_at, attempts = max(0, attempts - :uncount)
where lock_token = :token and locked_until > :now
