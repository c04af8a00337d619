-- Deletes a root; see functions/delete_instance.sql.
select refusal, instances, executions, events, messages from queen_durable.delete_instance($1, $2)
