-- Drops the queue events handed out under a token: their instance does not exist.
delete from mailbox_messages where lock_token = :token and kind = 'QueueMessage'
