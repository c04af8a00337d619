-- Removes a scheduled activity, running or not: its lock is gone with it.
delete from work_items
where instance = :instance and execution_id = :execution_id and activity_id = :activity_id
