-- Who reads the queues in question: queue mode, named groups, both or nobody.
select coalesce(bool_or(s.consumer_group = '__QUEUE_MODE__'), false) as queue_mode,
       count(distinct s.consumer_group) filter (where s.consumer_group <> '__QUEUE_MODE__') as named
  from queen.subscriptions s join queen.queues q on q.id = s.queue_id
 where ($1::text is null or q.name = $1) and ($2::text is null or q.namespace = $2) and ($3::text is null or q.task = $3)
