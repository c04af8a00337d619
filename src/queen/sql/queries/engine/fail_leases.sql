-- Hands leases back with one retry counted.
select * from queen.fail_leases($1, $2)
