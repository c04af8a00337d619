-- Events of the latest execution, in order.
select data from queen_durable.history
where instance = $1 and execution_id = coalesce(
    (select current_execution_id from queen_durable.instances where instance = $1),
    (select max(execution_id) from queen_durable.history where instance = $1)
)
order by event_id
