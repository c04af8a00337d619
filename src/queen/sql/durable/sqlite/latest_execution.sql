-- The latest execution of an instance, also of one that has events only.
select coalesce(
    (select current_execution_id from instances where instance = :instance),
    (select max(execution_id) from history where instance = :instance)
)
