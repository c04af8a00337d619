-- Promises: the commit horizon and what identifies the database it belongs to; valid once this is committed.
-- Locks: the row of queen.horizon, until commit.
select queen.advance_horizon() as pos, queen.database_identity() as database,
       coalesce(pg_sequence_last_value('queen.removal_number'), 0) as removed
