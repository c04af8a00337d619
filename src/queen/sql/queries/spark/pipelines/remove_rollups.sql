-- Promises: of each queue asked for, no bucket from its day on is left that a run before this one wrote.
-- Locks: the rows.
with ask as materialized (
    select (j ->> 'computed_at')::timestamptz as computed_at, j -> 'queues' as queues from (select current_setting('queen.ask')::jsonb as j) s
), scope as materialized (
    select q.key as queue, q.value::timestamptz as since from ask a cross join lateral jsonb_each_text(a.queues) q
), gone as (
    delete from queen.rollups r using ask a, scope s where r.queue = s.queue and r.bucket >= s.since and r.computed_at < a.computed_at
    returning 1
)
select count(*) as n from gone
