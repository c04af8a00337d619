-- Extends leases.
select * from queen.renew_leases($1, $2)
