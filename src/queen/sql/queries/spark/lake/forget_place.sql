-- Promises: retention no longer waits for other lakes that were at this place before.
-- Locks: their rows.
delete from queen.archive_positions p
 using (select current_setting('queen.ask')::jsonb as j) a
 where p.place = a.j ->> 'place' and p.lake <> (a.j ->> 'lake')::uuid
returning p.source
