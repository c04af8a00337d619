-- Finishes a batch; see functions/mailbox_ack.sql.
select queen_durable.mailbox_ack($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
