-- Hands out a key or a message; see functions/mailbox_dequeue.sql.
select * from queen_durable.mailbox_dequeue($1, $2, $3)
