-- Adds the next chunk of a group's cursor rows.
select queen.fill_subscription($1, $2) as more
