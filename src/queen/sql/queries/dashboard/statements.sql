-- The statements that cost most in this database.
select left(s.query, 160) as statement, s.calls, s.mean_exec_time as mean_ms, s.total_exec_time as total_ms
  from pg_stat_statements s join pg_database d on d.oid = s.dbid and d.datname = current_database()
 order by s.total_exec_time desc limit 10
