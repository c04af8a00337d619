-- Pushes the next scheduled messages of a queue that are due.
select * from queen.deliver_due($1, $2, $3, $4)
