-- Sizes of one instance.
select
    (select count(*) from history
     where history.instance = instances.instance and execution_id = current_execution_id),
    (select coalesce(sum(length(cast(data as blob))), 0) from history
     where history.instance = instances.instance and execution_id = current_execution_id),
    (select coalesce(json_array_length(data, '$.carried_events'), 0) from history
     where history.instance = instances.instance and execution_id = current_execution_id and event_id = 1)
from instances
where instance = :instance
