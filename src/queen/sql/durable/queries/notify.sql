-- Tells other processes; nothing is lost that the next look would not find, so the commit does not wait for the disk.
select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)
