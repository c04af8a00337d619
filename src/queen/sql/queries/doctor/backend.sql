-- Which server process answers.
select pg_backend_pid() as pid
