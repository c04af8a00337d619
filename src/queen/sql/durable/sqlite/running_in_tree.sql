-- Instances of a json list whose current execution has not ended.
select count(*)
from json_each(:instances) as ids
join instances on instances.instance = ids.value
join executions
  on executions.instance = instances.instance and executions.execution_id = instances.current_execution_id
where executions.status in ('Running', 'Parked', 'ContinuedAsNew')
