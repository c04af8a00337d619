-- Roots that have ended, oldest first. :instances is a json list or null, :completed_before a time or null.
select instances.instance
from instances
join executions
  on executions.instance = instances.instance and executions.execution_id = instances.current_execution_id
where instances.parent_instance is null
  and executions.status in ('Completed', 'Failed', 'Cancelled')
  and (:instances is null or instances.instance in (select value from json_each(:instances)))
  and (:completed_before is null or executions.completed_at < :completed_before)
order by instances.id
limit :limit
