-- Promises: whether a service has not succeeded for three of its intervals (ten seconds at least: a restart takes that long).
-- Locks: nothing.
create or replace function queen.is_late(s queen.service_leases) returns boolean
language sql volatile
return coalesce(s.last_success, s.registered_at) < queen.clock() - make_interval(secs => greatest(3 * s.interval_ms / 1000.0, 10));
