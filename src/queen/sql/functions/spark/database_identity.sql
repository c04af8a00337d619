-- Promises: a text that changes whenever positions handed out before may mean something else: another cluster (dump and restore), another
--   timeline (failover, recovery to a point in time), another database (dropped and made anew).
-- Locks: nothing. On a standby the timeline is that of the horizon that has reached it.
create or replace function queen.database_identity() returns text
language sql volatile as $$
    select format('%s:%s:%s', s.system_identifier, queen.timeline(),
                  (select d.oid from pg_database d where d.datname = current_database()))
      from pg_control_system() s
$$;
