-- Every service and how it fares.
select s.*, queen.is_late(s) as late from queen.service_leases s order by s.service
