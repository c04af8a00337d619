-- Events of one execution (null: the latest that has events), in order.
select instance, execution_id, event_id, kind, data from history
where instance = :instance
  and execution_id = coalesce(:execution_id, (select max(execution_id) from history where instance = :instance))
order by event_id
