-- Creates or changes a queue.
select (queen.configure($1, $2, $3, $4)).*
