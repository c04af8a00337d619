-- The same as series from what was summed up by the hour, and from minutes where that is not done yet.
with hours as (
    select h.queue_id, h.bucket, h.pushed, h.acked, h.failed, h.lag, h.max_lag_ms from queen.stats_hourly h where h.bucket >= $3
     union all
    select s.queue_id, date_bin('1 hour', s.bucket, timestamptz '1970-01-01 00:00:00+00'), sum(s.pushed), sum(s.acked), sum(s.failed),
           avg(s.lag), max(s.max_lag_ms)
      from queen.stats s
     where s.bucket >= greatest($3, (select max(x.bucket) + interval '1 hour' from queen.stats_hourly x))
     group by 1, 2
)
select date_bin(make_interval(secs => $4), h.bucket, timestamptz '1970-01-01 00:00:00+00') as bucket, sum(h.pushed)::bigint as pushed,
       sum(h.acked)::bigint as acked, sum(h.failed)::bigint as failed, max(h.max_lag_ms)::bigint as max_lag_ms,
       (sum(h.lag) / count(distinct h.bucket))::bigint as waiting
  from hours h
 where ($1::bigint is null or h.queue_id = $1) and ($2::bigint[] is null or h.queue_id = any ($2))
 group by 1 order by 1
