-- Pushes scheduled messages that are due.
select * from queen.deliver_due($1)
