-- Wakes the other processes that wait on these queues.
select pg_notify('queen', $1)
