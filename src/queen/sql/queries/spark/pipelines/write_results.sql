-- Promises: the rows are stored under the kind and their keys, in place of what the run had there; returns how many there are.
-- Locks: the rows.
with ask as materialized (
    select current_setting('queen.ask')::jsonb as j
), written as (
    insert into queen.pipeline_results (run_id, pipeline, kind, key, value)
    select r.id, r.pipeline, a.j ->> 'kind', x.key, x.value
      from ask a
      join queen.pipeline_runs r on r.id = (a.j ->> 'id')::uuid
     cross join lateral jsonb_to_recordset(a.j -> 'rows') x(key text, value jsonb)
        on conflict (run_id, kind, key) do update set value = excluded.value
    returning 1
)
select count(*) as n from written
