-- Stores messages; see functions/mailbox_enqueue.sql.
select queen_durable.mailbox_enqueue($1, $2, $3, $4, $5)
