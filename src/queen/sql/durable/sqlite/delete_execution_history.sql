-- Deletes the events of one execution.
delete from history where instance = :instance and execution_id = :execution_id
