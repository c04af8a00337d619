-- Events of one execution (null: the latest that has events), in order.
select instance, execution_id, event_id, kind, data from queen_durable.history
where instance = $1
  and execution_id = coalesce($2, (select max(execution_id) from queen_durable.history where instance = $1))
order by event_id
