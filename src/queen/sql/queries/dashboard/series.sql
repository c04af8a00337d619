-- What happened per bucket of $4 seconds since $3, over one queue ($1) or those of $2 (null: all).
select date_bin(make_interval(secs => $4), s.bucket, timestamptz '1970-01-01 00:00:00+00') as bucket, sum(s.pushed)::bigint as pushed,
       sum(s.acked)::bigint as acked, sum(s.failed)::bigint as failed, max(s.max_lag_ms) as max_lag_ms,
       (sum(s.lag) / count(distinct s.bucket))::bigint as waiting
  from queen.stats s
 where s.bucket >= $3 and ($1::bigint is null or s.queue_id = $1) and ($2::bigint[] is null or s.queue_id = any ($2))
 group by 1 order by 1
