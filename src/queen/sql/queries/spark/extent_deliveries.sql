-- Promises: the first and last time at which a batch ended.
-- Locks: nothing.
select min(ended_at) as low, max(ended_at) as high from queen.deliveries
