-- Deletes one execution.
delete from executions where instance = :instance and execution_id = :execution_id
