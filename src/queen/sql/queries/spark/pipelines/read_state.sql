-- Promises: what an analysis remembers of a lake; no row when it has not read it yet.
-- Locks: nothing.
select s.value::text as value
  from (select current_setting('queen.ask')::jsonb as j) a
  join queen.pipeline_state s on s.lake = (a.j ->> 'lake')::uuid and s.name = a.j ->> 'analysis'
