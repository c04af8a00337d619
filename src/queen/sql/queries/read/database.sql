-- The database as a whole.
select d.datname as name, pg_database_size(d.datid) as size, d.numbackends as connections, d.xact_commit as commits,
       d.xact_rollback as rollbacks, d.blks_read as blocks_read, d.blks_hit as blocks_hit, d.deadlocks, d.temp_bytes,
       d.conflicts, current_setting('max_connections')::integer as max_connections, current_setting('server_version') as version,
       case when d.blks_read + d.blks_hit > 0 then d.blks_hit::double precision / (d.blks_read + d.blks_hit) end as cache_hit_ratio
  from pg_stat_database d where d.datname = current_database()
