drop table queen.stats_hourly;
