-- Promises: one caller gets a schedule that is due, and it is due again later; nothing when somebody else was first.
-- Locks: the row of the pipeline.
update queen.pipeline_schedules s
   set last_at = clock_timestamp(), next_at = coalesce((a.j ->> 'later')::timestamptz, clock_timestamp() + s.every)
  from (select current_setting('queen.ask')::jsonb as j) a
 where s.pipeline = a.j ->> 'pipeline' and s.next_at = (a.j ->> 'next_at')::timestamptz
returning s.pipeline
