-- The events noted under one name, oldest first, with the messages they belong to as far as those are kept.
select t.id, t.partition_id, t.transaction_id, t.message_id, t.consumer_group, t.event_type, t.data, t.created_at,
       array(select x.trace_name from queen.trace_names x where x.trace_id = t.id order by x.trace_name) as names,
       q.name as queue_name, p.name as partition_name, m.payload, m.is_encrypted
  from queen.trace_names n
  join queen.traces t on t.id = n.trace_id
  join queen.partitions p on p.id = t.partition_id
  join queen.queues q on q.id = p.queue_id
  left join lateral (select x.payload, x.is_encrypted from queen.messages x
                      where x.partition_id = t.partition_id and x.seq = queen.find_message(t.partition_id, t.transaction_id)) m on true
 where n.trace_name = $1 and ($4::bigint is null or n.trace_id > $4)
 order by n.trace_id limit $2 offset $3
