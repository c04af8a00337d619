-- Which database this is: two addresses may lead to the same one.
select system_identifier || '/' || (select oid from pg_database where datname = current_database()) as database,
       current_setting('server_version_num')::integer as version, current_database() as name, current_user as role
  from pg_control_system()
