-- Hands out messages to one or more requests of the same shape.
select * from queen.pop_lanes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
