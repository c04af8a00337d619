-- One instance with the state of its current execution.
select i.instance, i.name, i.version, i.current_execution_id, e.status, e.output, i.parent_instance,
       i.created_at, i.updated_at, i.custom_status, i.custom_status_version, i.trace_id
from queen_durable.instances i
join queen_durable.executions e on e.instance = i.instance and e.execution_id = i.current_execution_id
where i.instance = $1
