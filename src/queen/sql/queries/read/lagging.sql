-- The lanes whose oldest message waits at least $1 seconds, worst first.
select w.consumer_group, q.name as queue_name, w.partition_name, w.partition_id, w.lease_id, w.waiting,
       floor(extract(epoch from queen.clock() - w.oldest_at))::bigint as lag_seconds, w.oldest_at, w.last_consumed_at
  from queen.waiting_lanes() w join queen.queues q on q.id = w.queue_id
 where w.oldest_at <= queen.clock() - make_interval(secs => $1::double precision)
 order by w.oldest_at, w.partition_id, w.consumer_group
 limit $2
