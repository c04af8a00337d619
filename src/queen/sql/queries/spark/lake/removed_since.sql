-- Promises: whether any message at or after a pos was removed, of any queue.
-- Locks: nothing.
select exists (select from queen.removals r where r.pos >= (current_setting('queen.ask')::jsonb ->> 'from')::bigint) as removed
