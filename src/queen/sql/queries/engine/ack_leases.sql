-- Everything up to a seq is done, for whole leases.
select * from queen.ack_leases($1, $2, $3, $4, $5)
