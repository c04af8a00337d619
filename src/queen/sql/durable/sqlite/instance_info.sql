-- One instance with the state of its current execution.
select instances.instance, instances.name, instances.version, instances.current_execution_id,
       executions.status, executions.output, instances.parent_instance, instances.created_at,
       instances.updated_at, instances.custom_status, instances.custom_status_version, instances.trace_id
from instances
join executions
  on executions.instance = instances.instance and executions.execution_id = instances.current_execution_id
where instances.instance = :instance
