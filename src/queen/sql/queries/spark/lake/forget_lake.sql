-- Promises: retention no longer waits for a lake.
-- Locks: its rows.
delete from queen.archive_positions p
 using (select current_setting('queen.ask')::jsonb as j) a
 where p.lake = (a.j ->> 'lake')::uuid
returning p.source
