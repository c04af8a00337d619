-- The same, queue by queue, with what each had waiting.
select q.name, date_bin(make_interval(mins => $3), s.bucket, timestamptz '2000-01-01 00:00:00+00') as bucket,
       sum(s.pushed)::bigint as pushed, sum(s.popped)::bigint as popped, sum(s.acked)::bigint as acked, sum(s.failed)::bigint as failed,
       max(s.lag) as waiting, max(s.max_lag_ms) as max_lag_ms
  from queen.stats s join queen.queues q on q.id = s.queue_id
 where s.bucket >= $1 and s.bucket <= $2 and ($4::text is null or q.name = $4) and ($5::text is null or q.namespace = $5)
   and ($6::text is null or q.task = $6)
 group by 1, 2 order by 1, 2
 limit 20000
