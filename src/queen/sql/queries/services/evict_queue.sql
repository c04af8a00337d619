-- Dead-letters the next messages that waited too long in a queue.
select * from queen.evict_queue($1, $2, $3, $4)
