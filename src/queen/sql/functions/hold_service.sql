-- Promises: held is true when p_holder may run this tick of a service: nobody else holds it, or the holder's time ran out, and the tick
--   (slot = time divided by the interval) has not run yet. A tick is run by one holder, once, and written down. Time runs out after one
--   and a half intervals and before the slot after next begins, whenever in its slot the holder came: so another has that slot, within
--   two intervals. What ran last is known by its time, not by its number: the interval may change, and a clock that was ahead by more
--   than an interval and was corrected holds nothing up. late: see queen.is_late; true only for those that ran before.
-- Locks: the service's row.
create or replace function queen.hold_service(
    p_service text, p_holder text, p_interval_ms bigint, out held boolean, out late boolean
) language plpgsql volatile as $$
declare
    v_now      timestamptz := queen.clock();
    v_interval interval := make_interval(secs => p_interval_ms / 1000.0);
    v_slot     bigint := floor(extract(epoch from v_now) * 1000 / p_interval_ms);
begin
    insert into queen.service_leases as s (service, holder, expires_at, interval_ms, slot, last_start_at, registered_at)
    values (p_service, p_holder, least(v_now + 1.5 * v_interval, to_timestamp((v_slot + 2) * p_interval_ms / 1000.0)),
            p_interval_ms, v_slot, v_now, v_now)
        on conflict (service) do update
       set holder = excluded.holder, expires_at = excluded.expires_at, interval_ms = excluded.interval_ms, slot = excluded.slot,
           last_start_at = excluded.last_start_at
     where s.last_start_at > v_now + v_interval
        or ((s.holder = excluded.holder or s.expires_at < v_now)
            and floor(extract(epoch from s.last_start_at) * 1000 / p_interval_ms) < v_slot);
    held := found;
    if held then
        insert into queen.service_ticks as t (service, slot, holder, started_at) values (p_service, v_slot, p_holder, v_now)
            on conflict (service, slot) do update set holder = excluded.holder, started_at = excluded.started_at;
    end if;
    select queen.is_late(s) into late from queen.service_leases s where s.service = p_service;
end $$;
