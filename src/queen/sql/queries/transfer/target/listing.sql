-- Every message of one partition of the target in order: $1.
select m.id, coalesce(m.transaction_id, m.id::text) as transaction_id, md5(m.payload::text) as payload
  from messages m where m.partition_id = $1 order by m.seq
