-- A page of messages, newest first.
select * from queen.browse_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
