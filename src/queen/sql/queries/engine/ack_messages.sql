-- The outcome of single messages.
select * from queen.ack_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) order by item
