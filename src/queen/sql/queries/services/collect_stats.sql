-- Adds what happened to the statistics.
select queen.collect_stats() as queues
