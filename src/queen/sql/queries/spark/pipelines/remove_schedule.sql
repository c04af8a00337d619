-- Promises: a pipeline is no longer run by itself.
-- Locks: the row of the pipeline.
delete from queen.pipeline_schedules s
 using (select current_setting('queen.ask')::jsonb as j) a
 where s.pipeline = a.j ->> 'pipeline'
returning s.pipeline
