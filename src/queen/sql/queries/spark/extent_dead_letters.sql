-- Promises: the first and last time at which a message was given up on.
-- Locks: nothing.
select min(failed_at) as low, max(failed_at) as high from queen.dead_letter_queue
