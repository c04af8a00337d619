-- Promises: the newest run of a pipeline over a lake and exactly the period asked for that ended well, with its figures; with `versions`
--   one of these versions, with `options` one of exactly these options; no row when there is none.
-- Locks: nothing.
with ask as materialized (
    select current_setting('queen.ask')::jsonb as j
)
select r.id::text as id, r.rows, r.figures::text as figures
  from ask a
  join queen.pipeline_runs r on r.pipeline = a.j ->> 'pipeline' and r.lake = a.j ->> 'lake' and r.state = 'done'
   and r.period_start is not distinct from (a.j ->> 'since')::timestamptz and r.period_end is not distinct from (a.j ->> 'until')::timestamptz
   and (a.j -> 'versions' is null or r.versions @> (a.j -> 'versions')) and (a.j -> 'options' is null or r.options = a.j -> 'options')
 order by r.started_at desc, r.id desc limit 1
