-- Promises: the table for the rows of this sink.
-- Locks: see queen.open_stage.
select queen.open_stage(current_setting('queen.ask')::jsonb ->> 'sink') as stage
