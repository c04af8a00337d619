-- How long the history of an execution is.
select max(event_id) from history where instance = :instance and execution_id = :execution_id
