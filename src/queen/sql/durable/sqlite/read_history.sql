-- Events of one execution, in order.
select data from history where instance = :instance and execution_id = :execution_id order by event_id
