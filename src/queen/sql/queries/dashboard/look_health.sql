-- What may hold everything back: services that are late, the oldest transaction, replicas that lag; and the newest act.
select (select coalesce(json_agg(json_build_object('service', s.service, 'last_success', s.last_success, 'last_error', s.last_error)), '[]')::text
          from queen.service_leases s where queen.is_late(s)) as late,
       (select json_build_object('pid', a.pid, 'application', a.application_name, 'state', a.state,
                                 'seconds', extract(epoch from clock_timestamp() - a.xact_start))::text
          from pg_stat_activity a
         where a.datname = current_database() and a.backend_xmin is not null and a.xact_start is not null and a.pid <> pg_backend_pid()
         order by a.xact_start limit 1) as oldest_transaction,
       (select coalesce(json_agg(json_build_object('name', r.application_name, 'state', r.state,
                                                   'seconds', extract(epoch from r.replay_lag),
                                                   'bytes', case when not pg_is_in_recovery() then pg_current_wal_lsn() - r.replay_lsn end)), '[]')::text
          from pg_stat_replication r where r.state is not null) as replicas,
       (select max(a.id) from queen.audit a) as newest_act
