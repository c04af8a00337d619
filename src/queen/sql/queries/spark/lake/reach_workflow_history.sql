-- Promises: until when one may read the events of at most about `rows` workflow executions that ended in [since, until), and how many
--   executions those are.
-- Locks: nothing.
with ask as materialized (
    select coalesce((j ->> 'since')::timestamptz, '-infinity') as since, (j ->> 'until')::timestamptz as until, (j ->> 'rows')::bigint as rows
      from (select current_setting('queen.ask')::jsonb as j) s
), ahead as materialized (
    select e.completed_at
      from ask a
      join queen_durable.executions e on e.completed_at >= extract(epoch from a.since) * 1000
                                     and e.completed_at < extract(epoch from a.until) * 1000
     order by e.completed_at limit (select rows from ask)
)
select case when count(s.completed_at) < a.rows then a.until else to_timestamp((max(s.completed_at) + 1) / 1000.0) end as until,
       to_timestamp(min(s.completed_at) / 1000.0) as since, count(s.completed_at) as n
  from ask a left join ahead s on true group by a.rows, a.until
