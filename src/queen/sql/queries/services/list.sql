-- Every service and how it fares.
select * from queen.service_leases order by service
