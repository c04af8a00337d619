-- Who is connected to this database, by application.
select coalesce(nullif(a.application_name, ''), 'unnamed') as application, count(*) as sessions,
       count(*) filter (where a.state <> 'idle') as active, min(a.backend_start) as since
  from pg_stat_activity a where a.datname = current_database() and a.backend_type = 'client backend'
 group by 1 order by 2 desc limit 20
