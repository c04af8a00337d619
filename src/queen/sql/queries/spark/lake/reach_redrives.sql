-- Promises: until when one may read at most about `rows` dead letters that were redriven in [since, until), and how many those are.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, (j ->> 'until')::timestamptz as until, (j ->> 'rows')::bigint as rows
      from (select current_setting('queen.ask')::jsonb as j) s
), ahead as materialized (
    select d.redriven_at from ask a join queen.dead_letter_queue d on d.redriven_at >= a.since and d.redriven_at < a.until
     order by d.redriven_at limit (select rows from ask)
)
select case when count(s.redriven_at) < a.rows then a.until else max(s.redriven_at) + interval '1 microsecond' end as until,
       min(s.redriven_at) as since, count(s.redriven_at) as n
  from ask a left join ahead s on true group by a.rows, a.until
