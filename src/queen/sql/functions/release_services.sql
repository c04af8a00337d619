-- Promises: whoever asks next has the services that p_holder held: it stops, and they need not wait for its time to run out.
-- Locks: the services' rows.
create or replace function queen.release_services(p_holder text) returns void
language sql volatile as $$
    update queen.service_leases set expires_at = queen.clock() where holder = p_holder and expires_at > queen.clock()
$$;
