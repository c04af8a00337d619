-- Promises: the first and last minute that was counted.
-- Locks: nothing.
select min(bucket) as low, max(bucket) as high from queen.stats
