-- Promises: true when p_holder may run this tick of a service: nobody else holds it, or the holder's time ran out, and the tick (slot =
--   time divided by the interval) has not run yet. A tick is run by one holder, once, and written down. Time runs out after one and
--   a half intervals and before the slot after next begins, whenever in its slot the holder came: so another has that slot, within two intervals.
-- Locks: the service's row.
create or replace function queen.hold_service(p_service text, p_holder text, p_interval_ms bigint) returns boolean
language plpgsql volatile as $$
declare
    v_now  timestamptz := queen.clock();
    v_slot bigint := floor(extract(epoch from v_now) * 1000 / p_interval_ms);
begin
    insert into queen.service_leases as s (service, holder, expires_at, interval_ms, slot, last_start_at)
    values (p_service, p_holder,
            least(v_now + make_interval(secs => p_interval_ms * 1.5 / 1000.0), to_timestamp((v_slot + 2) * p_interval_ms / 1000.0)),
            p_interval_ms, v_slot, v_now)
        on conflict (service) do update
       set holder = excluded.holder, expires_at = excluded.expires_at, interval_ms = excluded.interval_ms, slot = excluded.slot,
           last_start_at = excluded.last_start_at
     where (s.holder = excluded.holder or s.expires_at < v_now) and s.slot < v_slot;
    if not found then
        return false;
    end if;
    insert into queen.service_ticks (service, slot, holder, started_at) values (p_service, v_slot, p_holder, v_now);
    return true;
end $$;
