-- Children that instances of a json list have scheduled but that do not exist yet. Events that cannot be read name none.
select distinct children.child
from (
    select case when json_valid(history.data) then json_extract(history.data, '$.child_instance') end as child
    from json_each(:instances) as ids
    join history on history.instance = ids.value
    where history.kind = 'SubOrchestrationScheduled'
) as children
where children.child is not null
  and not exists (select 1 from instances where instances.instance = children.child)
