-- One acknowledgement of a batch, on this connection.
select * from queen.ack_leases(array[$1::bigint], array[$2::text], array[$3::uuid], array[$4::bigint])
