-- Removes a queue with everything in it.
select queen.delete_queue($1) as existed
