-- Promises: how many messages are committed at or above a position, by arithmetic on the range of positions still in use: never too few.
-- Locks: the row of queen.horizon, until commit.
select greatest(queen.advance_horizon() - greatest((current_setting('queen.ask')::jsonb ->> 'from')::bigint,
                                                   coalesce((select min(pos) from queen.messages), 0)), 0) as lag
