-- The events noted for one message, oldest first.
select t.id, t.partition_id, t.transaction_id, t.message_id, t.consumer_group, t.event_type, t.data, t.created_at,
       array(select n.trace_name from queen.trace_names n where n.trace_id = t.id order by n.trace_name) as names
  from queen.traces t where t.partition_id = $1 and t.transaction_id = $2
 order by t.id limit $3
