-- Applies retention to the next partitions of a queue.
select * from queen.retain_queue($1, $2, $3, $4)
