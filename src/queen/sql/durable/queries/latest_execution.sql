-- The latest execution of an instance, also of one that has events only.
select coalesce(
    (select current_execution_id from queen_durable.instances where instance = $1),
    (select max(execution_id) from queen_durable.history where instance = $1)
)
