-- A page of instances, newest first, below the id :before; null conditions are off.
-- :wanted is a json list of keys with the values they must have; the first finds the candidates, a change hides what was stored.
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
  and (:wanted = '[]' or instances.instance in (
      select instance from kv_delta
      where key >= 'queen.attribute:' and key < 'queen.attribute;'
        and key = json_extract(:wanted, '$[0][0]') and value = json_extract(:wanted, '$[0][1]')
      union all
      select instance from kv_store
      where key >= 'queen.attribute:' and key < 'queen.attribute;'
        and key = json_extract(:wanted, '$[0][0]') and value = json_extract(:wanted, '$[0][1]')
  ))
  and not exists (
      select 1 from json_each(:wanted) as wanted
      left join kv_delta on kv_delta.instance = instances.instance and kv_delta.key = json_extract(wanted.value, '$[0]')
      left join kv_store on kv_store.instance = instances.instance and kv_store.key = json_extract(wanted.value, '$[0]')
      where json_extract(wanted.value, '$[1]')
            is not case when kv_delta.key is null then kv_store.value else kv_delta.value end
  )
order by instances.id desc
limit :limit
