-- Promises: what is kept of a kind, the greatest by a figure of its `sums` first; at most `each` of the same queue and key, and `limit` in all.
-- Locks: nothing.
with ask as materialized (
    select (j ->> 'lake')::uuid as lake, j ->> 'pipeline' as pipeline, j ->> 'kind' as kind, j ->> 'by' as by, (j ->> 'each')::bigint as each,
           (j ->> 'limit')::integer as most
      from (select current_setting('queen.ask')::jsonb as j) s
), ranked as (
    select d.key, d.day, d.value, (d.value -> 'sums' ->> a.by)::numeric as figure,
           row_number() over (partition by d.queue, d.key order by (d.value -> 'sums' ->> a.by)::numeric desc nulls last, d.day desc) as rank
      from ask a join queen.pipeline_days d on d.lake = a.lake and d.pipeline = a.pipeline and d.kind = a.kind
)
select r.value::text as value from ranked r, ask a where r.rank <= a.each
 order by r.figure desc nulls last, r.key, r.day limit (select most from ask)
