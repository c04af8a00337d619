-- Gives a batch back; see functions/mailbox_abandon.sql.
select queen_durable.mailbox_abandon($1, $2, $3, $4)
