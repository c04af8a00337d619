-- Removes what is old from the delivery log.
select * from queen.trim_deliveries()
