-- What Spark summed up for whole queues, all queues together: the newest $2 buckets of a grain ($1), each of length $3.
select r.bucket, sum(r.messages_in)::bigint as pushed, sum(r.messages_out)::bigint as acked, sum(r.messages_failed)::bigint as failed,
       max(r.wait_ms) as wait_ms, sum(r.lag)::bigint as waiting
  from (select x.queue, x.bucket, max(x.messages_in) as messages_in, sum(x.messages_out) as messages_out, sum(x.messages_failed) as messages_failed,
               max(x.wait_p95_ms) as wait_ms, max(x.lag) as lag
          from queen.rollups x
         where x.grain = $1 and x.partition = '' and x.bucket > (select max(y.bucket) from queen.rollups y where y.grain = $1) - $2 * $3::interval
         group by x.queue, x.bucket) r
 group by r.bucket order by r.bucket
