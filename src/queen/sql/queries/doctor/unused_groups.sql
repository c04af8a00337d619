-- Groups that have not asked for messages for so many days, the longest first.
select s.consumer_group, q.name as queue_name, extract(epoch from queen.clock() - s.used_at)::double precision / 86400 as days
  from queen.subscriptions s join queen.queues q on q.id = s.queue_id
 where s.used_at < queen.clock() - make_interval(secs => $1::double precision * 86400) and s.consumer_group <> '__QUEUE_MODE__'
 order by s.used_at, q.name, s.consumer_group
