-- Nothing in this transaction waits for a lock longer than $1.
select set_config('lock_timeout', $1, true)
