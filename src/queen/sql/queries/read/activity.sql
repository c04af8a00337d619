-- What sessions of this database do, the longest-running first; the text of a statement is cut short.
select a.pid, a.application_name, a.state, a.wait_event_type, a.wait_event, left(a.query, 200) as statement,
       extract(epoch from clock_timestamp() - a.query_start)::double precision as running_seconds,
       extract(epoch from clock_timestamp() - a.xact_start)::double precision as transaction_seconds, a.backend_xmin::text as xmin
  from pg_stat_activity a
 where a.datname = current_database() and a.pid <> pg_backend_pid() and a.state is not null and a.state <> 'idle'
 order by a.xact_start nulls last limit 50
