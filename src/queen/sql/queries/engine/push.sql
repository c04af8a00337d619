-- Stores the items of one or more calls; see the function for what it promises.
select * from queen.push_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
