-- Deletes old executions; see functions/prune_executions.sql.
select instances, executions, events from queen_durable.prune_executions($1, $2, $3)
