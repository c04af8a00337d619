-- Removes statistics, traces and the history of retention that are older than so many days.
select queen.prune_history(make_interval(days => $1)) as removed
