-- Totals; states go by the current execution of each instance.
select
    (select count(*) from instances),
    (select count(*) from executions),
    (select count(*) from history),
    coalesce(sum(executions.status in ('Running', 'Parked', 'ContinuedAsNew')), 0),
    coalesce(sum(executions.status = 'Completed'), 0),
    coalesce(sum(executions.status in ('Failed', 'Cancelled')), 0)
from instances
join executions
  on executions.instance = instances.instance and executions.execution_id = instances.current_execution_id
