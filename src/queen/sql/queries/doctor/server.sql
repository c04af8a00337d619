-- What the server says about itself, and its clock.
select current_setting('server_version') as version, pg_is_in_recovery() as standby, clock_timestamp() as now,
       current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on' as autovacuum,
       current_setting('fsync') = 'on' as fsync, current_setting('max_connections')::integer as max_connections,
       (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
       pg_database_size(current_database()) as size
