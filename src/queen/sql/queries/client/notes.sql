-- The notes about some messages, in time order.
select t.partition_id, t.transaction_id, t.event_type, t.data, t.consumer_group, t.created_at
  from unnest($1::bigint[], $2::text[]) m(partition_id, transaction_id)
  join queen.traces t on t.partition_id = m.partition_id and t.transaction_id = m.transaction_id
 order by t.id
