-- Deletes ended roots; see functions/delete_instances.sql.
select instances, executions, events, messages from queen_durable.delete_instances($1, $2, $3)
