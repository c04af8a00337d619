-- The background services: who runs each until when, and how it went.
select s.service, s.holder, s.expires_at, s.interval_ms, s.slot, s.last_start_at, s.last_success, s.last_error_at, s.last_error, s.last_result,
       s.expires_at > queen.clock() as held, queen.is_late(s) as late
  from queen.service_leases s order by s.service
