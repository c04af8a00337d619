-- Moves a group's cursors.
select * from queen.seek($1, $2, $3, $4, $5, $6, $7)
