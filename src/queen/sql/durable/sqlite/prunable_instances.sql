-- Instances with more than one execution, oldest first. :instances is a json list or null.
select instances.instance
from instances
where instances.current_execution_id > 1
  and (:instances is null or instances.instance in (select value from json_each(:instances)))
  and exists (
    select 1 from executions
    where executions.instance = instances.instance
      and executions.execution_id < instances.current_execution_id
      and executions.status not in ('Running', 'Parked')
      and (:completed_before is null or executions.completed_at < :completed_before)
  )
order by instances.id
limit :limit
