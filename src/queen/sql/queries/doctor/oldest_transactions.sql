-- Whatever holds back clean-up for longer than $1 seconds: open transactions, prepared ones, replication slots.
select 'process ' || a.pid || coalesce(' (' || nullif(a.application_name, '') || ')', '') as holder, a.state as state,
       extract(epoch from clock_timestamp() - a.xact_start)::double precision as seconds
  from pg_stat_activity a
 where a.xact_start < clock_timestamp() - make_interval(secs => $1) and a.pid <> pg_backend_pid()
   and a.backend_type in ('client backend', 'walsender') and a.datname = current_database()
union all
select 'prepared transaction ' || p.gid, 'prepared', extract(epoch from clock_timestamp() - p.prepared)::double precision
  from pg_prepared_xacts p
 where p.prepared < clock_timestamp() - make_interval(secs => $1) and p.database = current_database()
union all
select 'replication slot ' || s.slot_name, 'inactive', null
  from pg_replication_slots s where not s.active and (s.xmin is not null or s.catalog_xmin is not null)
 order by seconds desc nulls last
 limit 10
