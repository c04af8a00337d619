-- Promises: the name by which other transactions see what this one sees, as long as it is open; it may stay idle.
-- Locks: nothing; what is removed meanwhile stays on disk until it ends.
select pg_export_snapshot() as snapshot, set_config('idle_in_transaction_session_timeout', '0', true)
