-- Every pipeline that has run or is scheduled, by name, with its newest run and its schedule. $2: after this name (keyset).
with recursive names(name) as (
    (select r.pipeline from queen.pipeline_runs r where $2::text is null or r.pipeline > $2 order by r.pipeline limit 1)
    union all
    select (select r.pipeline from queen.pipeline_runs r where r.pipeline > n.name order by r.pipeline limit 1)
      from names n where n.name is not null
), known as (
    select name from names where name is not null
    union
    select pipeline from queen.pipeline_schedules where $2::text is null or pipeline > $2
)
select n.name, r.id, r.pipeline, r.state, r.lake, r.master, r.period_start, r.period_end, r.options, r.versions, r.rows, r.lag, r.figures,
       r.progress, r.error, r.started_at, r.finished_at, r.heartbeat_at, s.cron, extract(epoch from s.every)::double precision as every,
       s.next_at
  from (select name from known order by name limit $1) n
  left join lateral (select x.* from queen.pipeline_runs x where x.pipeline = n.name order by x.started_at desc, x.id desc limit 1) r on true
  left join queen.pipeline_schedules s on s.pipeline = n.name
 order by n.name
