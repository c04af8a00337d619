-- What a turn needs to know of an instance.
select instances.name, instances.version, instances.current_execution_id, instances.parent_instance, executions.status,
       instances.id
from instances
join executions
  on executions.instance = instances.instance and executions.execution_id = instances.current_execution_id
where instances.instance = :instance
