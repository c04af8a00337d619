-- Per service: when it last succeeded (seconds since 1970), whether it failed since, and whether it is late.
select s.service, extract(epoch from s.last_success)::double precision as succeeded_at, queen.is_late(s) as late,
       (s.last_error_at is not null and (s.last_success is null or s.last_error_at > s.last_success)) as failing
  from queen.service_leases s order by s.service
