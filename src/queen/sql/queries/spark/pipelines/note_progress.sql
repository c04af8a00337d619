-- Promises: a run shows how far it is, and that it is alive.
-- Locks: the row of the run.
update queen.pipeline_runs r
   set progress = a.j -> 'progress', rows = coalesce((a.j ->> 'rows')::bigint, r.rows), heartbeat_at = clock_timestamp()
  from (select current_setting('queen.ask')::jsonb as j) a
 where r.id = (a.j ->> 'id')::uuid and r.state = 'running'
returning r.id::text as id
