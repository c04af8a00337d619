-- What retention and eviction removed, per bucket of $3 minutes, queue and kind.
select q.name, h.retention_type as kind, date_bin(make_interval(mins => $3), h.executed_at, timestamptz '2000-01-01 00:00:00+00') as bucket,
       sum(h.messages_removed)::bigint as removed
  from queen.retention_history h join queen.queues q on q.id = h.queue_id
 where h.executed_at >= $1 and h.executed_at <= $2 and ($4::text is null or q.name = $4)
 group by 1, 2, 3 order by 3, 1, 2
 limit 20000
