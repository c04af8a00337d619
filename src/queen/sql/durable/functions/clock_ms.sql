-- Promises: the time that decides what is due and what has expired, in ms: the caller's when given (a clock moved by
--   hand in a test), else the server's own, so that skewed machines agree.
-- Locks: nothing.
create or replace function queen_durable.clock_ms(p_now bigint) returns bigint
language sql volatile parallel safe as $$
    select coalesce(p_now, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
$$;
