-- Removes all messages of a queue.
select queen.clear_queue($1) as removed
