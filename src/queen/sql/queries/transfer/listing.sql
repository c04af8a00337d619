-- Every message of one partition of the source in order: $1.
select m.id, coalesce(m.transaction_id, m.id::text) as transaction_id, md5(coalesce(m.payload, 'null')::text) as payload
  from messages m where m.partition_id = $1 order by m.created_at, m.id
