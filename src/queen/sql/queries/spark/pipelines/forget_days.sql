-- Promises: nothing of some kinds is kept for the days of queues asked for: from a day on (`since`), or exactly these (`days`).
-- Locks: the rows.
with ask as materialized (
    select (j ->> 'lake')::uuid as lake, j ->> 'pipeline' as pipeline, array(select jsonb_array_elements_text(j -> 'kinds')) as kinds, j -> 'queues' as queues
      from (select current_setting('queen.ask')::jsonb as j) s
), scope as materialized (
    select q.key as queue, (q.value ->> 'since')::date as since, array(select jsonb_array_elements_text(q.value -> 'days')::date) as days
      from ask a cross join lateral jsonb_each(a.queues) q
), gone as (
    delete from queen.pipeline_days d using ask a, scope s
     where d.lake = a.lake and d.pipeline = a.pipeline and d.kind = any (a.kinds) and d.queue = s.queue
       and (d.day >= s.since or d.day = any (s.days))
    returning 1
)
select count(*) as n from gone
