-- Promises: a pipeline runs at these times from now on, in place of whatever was set before.
-- Locks: the row of the pipeline.
insert into queen.pipeline_schedules as s (pipeline, cron, every, lake, master, options, next_at)
select j ->> 'pipeline', j ->> 'cron', make_interval(secs => (j ->> 'every')::double precision), j ->> 'lake', j ->> 'master', j -> 'options',
       coalesce((j ->> 'next_at')::timestamptz, clock_timestamp())
  from (select current_setting('queen.ask')::jsonb as j) a
    on conflict (pipeline) do update
   set cron = excluded.cron, every = excluded.every, lake = excluded.lake, master = excluded.master, options = excluded.options,
       next_at = excluded.next_at
returning s.pipeline, s.next_at
