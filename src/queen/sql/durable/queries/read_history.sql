-- Events of one execution, in order.
select data from queen_durable.history where instance = $1 and execution_id = $2 order by event_id
