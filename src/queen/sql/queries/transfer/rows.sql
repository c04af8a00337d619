-- Messages of the partitions $1 (former ids) with their new ids $2, as Spark compares them.
select w.id as partition, m.id::text as message, (extract(epoch from m.created_at) * 1000000)::bigint as place,
       coalesce(m.transaction_id::text, m.id::text) as transaction_id, coalesce(m.payload, 'null')::text as payload
  from unnest($1::uuid[], $2::bigint[]) w(former, id) join messages m on m.partition_id = w.former
