-- Removes some partitions that are empty and idle.
select queen.clean_partitions(make_interval(days => $1)) as removed
