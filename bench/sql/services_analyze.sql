-- What autovacuum would have done by now, before anything is timed.
vacuum (analyze)
