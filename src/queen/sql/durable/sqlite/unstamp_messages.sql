-- Gives the messages of a token back; :uncount lowers their attempts, not below 0.
update mailbox_messages
set lock_token = null, locked_until = null, attempts = max(0, attempts - :uncount)
where lock_token = :token
