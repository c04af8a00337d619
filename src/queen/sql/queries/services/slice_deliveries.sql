-- Makes and drops slices of the delivery log.
select * from queen.slice_deliveries()
