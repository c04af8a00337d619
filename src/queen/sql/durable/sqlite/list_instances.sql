-- A page of instances, newest first, below the id :before; null conditions are off.
select instances.instance, instances.name, instances.version, instances.current_execution_id,
       executions.status, executions.output, instances.parent_instance, instances.created_at,
       instances.updated_at, instances.custom_status, instances.custom_status_version, instances.trace_id,
       instances.id
from instances
join executions
  on executions.instance = instances.instance and executions.execution_id = instances.current_execution_id
where (:before is null or instances.id < :before)
  and (:name is null or instances.name = :name)
  and (:status is null or executions.status = :status)
  and (:parent_instance is null or instances.parent_instance = :parent_instance)
  and (:trace_id is null or instances.trace_id = :trace_id)
  and (:created_from is null or instances.created_at >= :created_from)
  and (:created_before is null or instances.created_at < :created_before)
  and (:id_prefix is null or substr(instances.instance, 1, length(:id_prefix)) = :id_prefix)
order by instances.id desc
limit :limit
