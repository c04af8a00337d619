-- $2 scheduled messages for as many partitions of queue $1, due since a minute.
insert into queen.scheduled_messages (id, queue_id, partition_name, deliver_at, payload, created_at)
select queen.uuid7(), q.id, 'p' || n, queen.clock() - interval '1 minute', '{}', queen.clock()
  from queen.queues q, generate_series(1, $2::bigint) n where q.name = $1
