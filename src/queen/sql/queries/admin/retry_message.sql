-- Pushes a message again.
select * from queen.retry_message($1, $2)
