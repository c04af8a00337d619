-- Promises: the results of the newest run of a pipeline that ended well, or of the run asked for, after a key; at most `limit`.
-- Locks: nothing.
with ask as materialized (
    select current_setting('queen.ask')::jsonb as j
), run as materialized (
    select r.id from queen.pipeline_runs r, ask a
     where r.pipeline = a.j ->> 'pipeline' and (r.id = (a.j ->> 'run')::uuid or a.j ->> 'run' is null and r.state = 'done')
     order by r.started_at desc, r.id desc limit 1
)
select x.kind, x.key, x.value::text as value
  from ask a
 cross join run
  join queen.pipeline_results x on x.run_id = run.id and x.kind = a.j ->> 'kind' and x.key > coalesce(a.j ->> 'after', '')
 order by x.key limit (select (j ->> 'limit')::integer from ask)
