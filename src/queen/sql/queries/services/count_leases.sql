-- How many leases are live, and how many ran out.
select * from queen.count_leases()
