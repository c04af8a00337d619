-- Promises: what the days of a kind come to together, by queue and key: `sums` and `counts` added up, of `least` and `most` the extremes; the
--   greatest by a figure of its `sums` first, at most `limit`.
-- Locks: nothing.
with ask as materialized (
    select (j ->> 'lake')::uuid as lake, j ->> 'pipeline' as pipeline, j ->> 'kind' as kind, j ->> 'by' as by, (j ->> 'limit')::integer as most
      from (select current_setting('queen.ask')::jsonb as j) s
), mine as materialized (
    select d.queue, d.key, d.value
      from ask a join queen.pipeline_days d on d.lake = a.lake and d.pipeline = a.pipeline and d.kind = a.kind
), added as (
    select m.queue, m.key, e.key as name, sum(e.value::numeric) as total
      from mine m cross join lateral jsonb_each_text(m.value -> 'sums') e group by 1, 2, 3
), chosen as materialized (
    select s.queue, s.key, jsonb_object_agg(s.name, s.total) as sums
      from added s group by s.queue, s.key
     order by max(s.total) filter (where s.name = (select by from ask)) desc nulls last, s.queue, s.key limit (select most from ask)
), counted as (
    select x.queue, x.key, jsonb_object_agg(x.name, x.counts) as counts
      from (select y.queue, y.key, y.name, jsonb_object_agg(y.place, y.total) as counts
              from (select m.queue, m.key, h.key as name, b.key as place, sum(b.value::bigint) as total
                      from chosen c
                      join mine m on m.queue = c.queue and m.key = c.key
                     cross join lateral jsonb_each(m.value -> 'counts') h cross join lateral jsonb_each_text(h.value) b group by 1, 2, 3, 4) y
             group by 1, 2, 3) x
     group by 1, 2
), extremes as (
    select x.queue, x.key, jsonb_object_agg(x.name, x.value) filter (where x.low) as least, jsonb_object_agg(x.name, x.value) filter (where not x.low) as most
      from (select m.queue, m.key, e.key as name, true as low, (array_agg(e.value order by e.value))[1] as value
              from chosen c join mine m on m.queue = c.queue and m.key = c.key cross join lateral jsonb_each(m.value -> 'least') e group by 1, 2, 3
             union all
            select m.queue, m.key, e.key, false, (array_agg(e.value order by e.value desc))[1]
              from chosen c join mine m on m.queue = c.queue and m.key = c.key cross join lateral jsonb_each(m.value -> 'most') e group by 1, 2, 3) x
     group by 1, 2
)
select c.queue, c.key, c.sums::text as sums, coalesce(n.counts, '{}')::text as counts, coalesce(x.least, '{}')::text as least,
       coalesce(x.most, '{}')::text as most
  from chosen c
  left join counted n on n.queue = c.queue and n.key = c.key
  left join extremes x on x.queue = c.queue and x.key = c.key
 order by c.queue, c.key
