-- Promises: every schedule, the next one due first, and whether it is due.
-- Locks: nothing.
select s.pipeline, s.cron, extract(epoch from s.every)::double precision as every, s.lake, s.master, s.options::text as options, s.next_at,
       s.last_at, s.next_at <= clock_timestamp() as due
  from queen.pipeline_schedules s order by s.next_at, s.pipeline
