-- Promises: a run has the results of an earlier one; returns how many.
-- Locks: the rows.
with ask as materialized (
    select current_setting('queen.ask')::jsonb as j
), carried as (
    insert into queen.pipeline_results (run_id, pipeline, kind, key, value)
    select (a.j ->> 'id')::uuid, x.pipeline, x.kind, x.key, x.value
      from ask a join queen.pipeline_results x on x.run_id = (a.j ->> 'before')::uuid
        on conflict (run_id, kind, key) do nothing
    returning 1
)
select count(*) as n from carried
