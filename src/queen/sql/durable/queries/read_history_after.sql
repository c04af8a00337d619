-- Events of one execution after one of them, in order.
select data from queen_durable.history
where instance = $1 and execution_id = $2 and event_id > $3
order by event_id
