-- Registers a group on a queue.
select queen.subscribe($1, $2, $3, $4) as more
