-- Promises: a run is recorded as done, or as failed with its error, with what it came to.
-- Locks: the row of the run.
update queen.pipeline_runs r
   set state = a.j ->> 'state', rows = (a.j ->> 'rows')::bigint, figures = a.j -> 'figures', error = a.j ->> 'error',
       lag = (a.j ->> 'lag')::bigint, finished_at = clock_timestamp(), heartbeat_at = clock_timestamp()
  from (select current_setting('queen.ask')::jsonb as j) a
 where r.id = (a.j ->> 'id')::uuid
returning r.id::text as id
