-- Events of one execution after one of them, in order.
select data from history
where instance = :instance and execution_id = :execution_id and event_id > :event_id
order by event_id
