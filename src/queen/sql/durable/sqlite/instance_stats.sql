-- Sizes of one instance, and its first event, which says what was carried over.
select
    (select count(*) from history
     where history.instance = instances.instance and execution_id = current_execution_id),
    (select coalesce(sum(length(cast(data as blob))), 0) from history
     where history.instance = instances.instance and execution_id = current_execution_id),
    (select data from history
     where history.instance = instances.instance and execution_id = current_execution_id and event_id = 1)
from instances
where instance = :instance
