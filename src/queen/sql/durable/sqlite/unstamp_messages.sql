-- Gives the messages of a token back, hidden until :visible_at; :uncount lowers their attempts, not below 0.
update mailbox_messages
set lock_token = null,
    locked_until = null,
    visible_at = max(visible_at, :visible_at),
    attempts = max(0, attempts - :uncount)
where lock_token = :token
