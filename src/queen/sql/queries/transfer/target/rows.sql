-- Messages of the partitions $1 as Spark compares them.
select m.partition_id as partition, m.id::text as message, m.seq as place, coalesce(m.transaction_id, m.id::text) as transaction_id,
       m.payload::text as payload
  from messages m where m.partition_id = any ($1::bigint[])
