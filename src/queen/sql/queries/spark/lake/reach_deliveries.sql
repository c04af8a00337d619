-- Promises: until when one may read at most about `rows` deliveries that ended in [since, until), and how many those are.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, (j ->> 'until')::timestamptz as until, (j ->> 'rows')::bigint as rows
      from (select current_setting('queen.ask')::jsonb as j) s
), ahead as materialized (
    select d.ended_at from ask a join queen.deliveries d on d.ended_at >= a.since and d.ended_at < a.until
     order by d.ended_at limit (select rows from ask)
)
select case when count(s.ended_at) < a.rows then a.until else max(s.ended_at) + interval '1 microsecond' end as until,
       min(s.ended_at) as since, count(s.ended_at) as n
  from ask a left join ahead s on true group by a.rows, a.until
