-- The pages one acknowledgement of a whole lease touches.
explain (analyze, buffers, timing off, format json)
select * from queen.ack_leases(array[$1::bigint], array[$2::text], array[$3::uuid], array[$4::bigint])
