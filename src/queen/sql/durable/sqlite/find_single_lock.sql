-- The message without routing key a live token holds.
select queue, id from mailbox_messages where lock_token = :token and locked_until > :now
