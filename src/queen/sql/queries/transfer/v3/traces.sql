-- The traces of partitions with their names. $1 former ids, $2 ids.
select w.id, t.transaction_id::text, t.message_id, t.consumer_group::text, t.event_type::text, t.data, coalesce(t.created_at, now()),
       array(select n.trace_name::text from message_trace_names n where n.trace_id = t.id order by 1)
  from unnest($1::uuid[], $2::bigint[]) w(former, id) join message_traces t on t.partition_id = w.former
 where t.message_id is not null
