-- Promises: see queen.close_stage.
-- Locks: see queen.close_stage.
select queen.close_stage(j ->> 'sink', (j ->> 'drop')::boolean, (j ->> 'forget')::boolean)::text as closed
  from (select current_setting('queen.ask')::jsonb as j) s
