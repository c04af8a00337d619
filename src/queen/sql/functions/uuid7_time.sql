-- Promises: the time a UUIDv7 was made; of any other UUID a time that means nothing, never an error.
-- Locks: nothing.
create or replace function queen.uuid7_time(p_id uuid) returns timestamptz
language sql immutable parallel safe
return to_timestamp((('x' || lpad(substr(replace(p_id::text, '-', ''), 1, 12), 16, '0'))::bit(64)::bigint) / 1000.0);
