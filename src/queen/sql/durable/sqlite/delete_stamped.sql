-- Deletes exactly the messages handed out under a token.
delete from mailbox_messages where lock_token = :token
