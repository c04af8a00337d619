-- Promises: the time every verb goes by. Inlined to clock_timestamp(); tests replace it to move time.
-- Locks: nothing.
create or replace function queen.clock() returns timestamptz
language sql volatile parallel safe
return clock_timestamp();
