-- Adds what happened to the statistics.
select queen.collect_stats(make_interval(days => $1)) as queues
