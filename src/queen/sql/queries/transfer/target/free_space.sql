-- Asks the server's own machine how much room its data directory has; needs the role pg_execute_server_program.
create temporary table free_space (line text) on commit drop;
copy free_space from program 'df -P -k . | tail -n 1'
