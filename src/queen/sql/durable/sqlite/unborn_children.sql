-- Children that instances of a json list have scheduled but that do not exist yet.
select distinct history.data ->> 'child_instance'
from json_each(:instances) as ids
join history on history.instance = ids.value
where history.kind = 'SubOrchestrationScheduled'
  and not exists (select 1 from instances where instances.instance = history.data ->> 'child_instance')
