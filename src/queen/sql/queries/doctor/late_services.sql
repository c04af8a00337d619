-- Services that have not succeeded for three intervals, the longest first.
select s.service, coalesce(s.last_error, 'nobody runs it') as why,
       extract(epoch from queen.clock() - coalesce(s.last_success, s.registered_at))::double precision as seconds
  from queen.service_leases s where queen.is_late(s) order by 3 desc
