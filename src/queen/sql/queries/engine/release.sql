-- Hands leases back.
select * from queen.release($1, $2)
