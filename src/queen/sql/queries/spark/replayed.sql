-- Promises: whether this server has replayed the log up to a place; one that is no standby wrote it itself.
-- Locks: nothing.
select not pg_is_in_recovery() or coalesce(pg_last_wal_replay_lsn() >= (current_setting('queen.ask')::jsonb ->> 'lsn')::pg_lsn, false) as replayed
