-- Extends a live lock.
update mailbox_keys set locked_until = :locked_until, ready_at = :locked_until
where lock_token = :token and locked_until > :now
