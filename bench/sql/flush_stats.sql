-- Make this session's counters visible now.
select pg_stat_force_next_flush()
