-- Promises: a time, to the millisecond, such that whatever was stamped before it by transactions of this database is committed and visible
--   to the next statement: now, or the start of the oldest transaction under way. The clock is read first: a transaction that
--   begins afterwards stamps later times. Sees transactions of other roles only as a superuser or member of pg_read_all_stats.
-- Locks: nothing.
create or replace function queen.settled_time() returns timestamptz
language plpgsql volatile as $$
declare
    v_now    timestamptz := clock_timestamp();
    v_oldest timestamptz;
begin
    select min(a.xact_start) into v_oldest from pg_stat_activity a
     where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type <> 'autovacuum worker';
    return date_trunc('milliseconds', least(v_now, v_oldest));
end $$;
