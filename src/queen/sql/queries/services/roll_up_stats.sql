-- Sums statistics by the minute up by the hour, some hours at a time.
select queen.roll_up_stats() as count
