-- Promises: a text that changes whenever positions handed out before may mean something else: another cluster (dump and restore), another
--   timeline (failover, recovery to a point in time), another database (dropped and made anew).
-- Locks: nothing. On a standby the timeline is the one it follows.
create or replace function queen.database_identity() returns text
language sql volatile as $$
    select format('%s:%s:%s', s.system_identifier,
                  case when pg_is_in_recovery() then c.timeline_id::text
                       else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer::text end,
                  (select d.oid from pg_database d where d.datname = current_database()))
      from pg_control_system() s, pg_control_checkpoint() c
$$;
