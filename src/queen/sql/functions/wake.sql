-- Promises: tells waiting pops of other processes, when the caller's transaction commits, that a queue has something new. Not on a server
--   that allows prepared transactions: PostgreSQL refuses to prepare a transaction that notifies, and pops look by themselves within
--   a second. The setting queen.notify (on, off) decides instead where it is set.
-- Locks: nothing (PostgreSQL's own for notifications, at commit).
create or replace function queen.wake(p_queue_id bigint) returns void
language plpgsql volatile as $$
begin
    if coalesce(nullif(current_setting('queen.notify', true), '')::boolean, current_setting('max_prepared_transactions') = '0') then
        perform pg_notify('queen', p_queue_id::text);
    end if;
end $$;
