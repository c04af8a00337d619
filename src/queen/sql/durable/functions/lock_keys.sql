-- Promises: makes the caller the only one to change these instances until its transaction ends.
-- Locks: the existing rows of the keys, in key order, so that no two callers can wait for each other.
create or replace function queen_durable.lock_keys(p_keys text[]) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
begin
    perform from queen_durable.mailbox_keys k
    where k.queue = 'orchestrator' and k.routing_key = any (p_keys)
    order by k.routing_key
    for update;
end $$;
