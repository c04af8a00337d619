-- What came in and was done per queue, minute by minute, in the last $1 minutes.
select s.queue_id, s.bucket, s.pushed, s.acked, s.failed, s.lag, s.max_lag_ms
  from queen.stats s
 where s.bucket > (select queen.clock()) - make_interval(mins => $1)
 order by s.queue_id, s.bucket
