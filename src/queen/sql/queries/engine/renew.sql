-- Extends leases.
select * from queen.renew($1, $2)
