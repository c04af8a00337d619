-- Promises: the timeline this server writes; on a standby that of the newest horizon that has reached it.
-- Locks: nothing.
create or replace function queen.timeline() returns integer
language sql volatile as $$
    select case when pg_is_in_recovery() then (select h.timeline from queen.horizon h)
                else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer end
$$;
