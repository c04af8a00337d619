-- Promises: the rows are kept under their queue, day and key, in place of what was there; returns how many.
-- Locks: the rows, in order of their keys.
with ask as materialized (
    select (j ->> 'lake')::uuid as lake, j ->> 'pipeline' as pipeline, j ->> 'kind' as kind, j -> 'rows' as rows
      from (select current_setting('queen.ask')::jsonb as j) s
), written as (
    insert into queen.pipeline_days (lake, pipeline, queue, day, kind, key, value)
    select a.lake, a.pipeline, x.queue, x.day, a.kind, x.key, x.value
      from ask a cross join lateral jsonb_to_recordset(a.rows) x(queue text, day date, key text, value jsonb)
     order by x.queue, x.day, x.key
        on conflict (lake, pipeline, kind, queue, day, key) do update set value = excluded.value
    returning 1
)
select count(*) as n from written
