-- Dead-letters what waited too long in a queue.
select queen.evict_queue($1) as evicted
