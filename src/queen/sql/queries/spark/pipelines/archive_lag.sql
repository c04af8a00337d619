-- Promises: how many messages are committed at or above a position, by arithmetic on the range of positions still in use: never too few.
-- Locks: nothing.
with ask as materialized (select (current_setting('queen.ask')::jsonb ->> 'from')::bigint as low)
select greatest((select position from queen.horizon) - greatest(a.low, coalesce((select min(pos) from queen.messages), 0)), 0) as lag
  from ask a
