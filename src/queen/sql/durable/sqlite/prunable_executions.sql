-- Executions to prune: ended, older than the :keep newest, completed before :completed_before if given.
select executions.execution_id
from executions
join instances on instances.instance = executions.instance
where executions.instance = :instance
  and executions.execution_id <= instances.current_execution_id - :keep
  and executions.status not in ('Running', 'Parked')
  and (:completed_before is null or executions.completed_at < :completed_before)
