-- Executions of an instance, ascending; :execution_id null means all.
select execution_id, status, output, started_at, completed_at,
       (select count(*) from history
        where history.instance = executions.instance and history.execution_id = executions.execution_id),
       pinned_version
from executions
where instance = :instance and (:execution_id is null or execution_id = :execution_id)
order by execution_id
