-- Changes where a group starts.
select queen.set_subscription($1, $2) as changed
