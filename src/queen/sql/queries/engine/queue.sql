-- One queue by name.
select * from queen.queues where name = $1
