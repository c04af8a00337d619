-- Promises: up to where the server has written its log, as text: a replica that has replayed it has all that is committed now.
-- Locks: nothing.
select pg_current_wal_insert_lsn()::text as lsn
