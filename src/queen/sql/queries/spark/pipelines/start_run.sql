-- Promises: a new run is recorded; runs of the same pipeline on the same lake that no longer give a sign of life are recorded as failed.
-- Locks: the rows of those runs.
with ask as materialized (
    select j, clock_timestamp() as now from (select current_setting('queen.ask')::jsonb as j) s
), dead as (
    update queen.pipeline_runs r
       set state = 'failed', finished_at = r.heartbeat_at, error = 'the run was interrupted: its process ended without a word'
      from ask a
     where r.pipeline = a.j ->> 'pipeline' and r.lake = a.j ->> 'lake' and r.state = 'running'
       and r.heartbeat_at < a.now - make_interval(secs => (a.j ->> 'patience')::double precision)
    returning r.id
)
insert into queen.pipeline_runs (pipeline, state, lake, master, period_start, period_end, options, versions, started_at, heartbeat_at)
select j ->> 'pipeline', 'running', j ->> 'lake', j ->> 'master', (j ->> 'period_start')::timestamptz, (j ->> 'period_end')::timestamptz,
       j -> 'options', j -> 'versions' || jsonb_build_object('postgresql', current_setting('server_version')), now, now
  from ask left join (select count(*) from dead) d on true
returning id::text as id, started_at
