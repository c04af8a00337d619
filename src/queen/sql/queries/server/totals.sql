-- The running totals of all queues there are or were.
select pushed, popped, acked, failed from queen.totals
