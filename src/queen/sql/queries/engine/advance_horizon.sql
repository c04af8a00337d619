-- The commit horizon: every message with a pos below it is committed.
select queen.advance_horizon() as position
