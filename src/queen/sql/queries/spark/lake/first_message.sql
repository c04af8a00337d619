-- Promises: the pos of the oldest message there is; null when there is none.
-- Locks: nothing.
select min(pos) as pos from queen.messages
