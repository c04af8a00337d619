-- How many events were noted under one name.
select count(*) as total from queen.trace_names where trace_name = $1
