-- Totals; states go by the current execution of each instance.
select count(*), (select count(*) from queen_durable.executions), (select count(*) from queen_durable.history),
       count(*) filter (where e.status in ('Running', 'Parked', 'ContinuedAsNew')),
       count(*) filter (where e.status = 'Completed'),
       count(*) filter (where e.status in ('Failed', 'Cancelled'))
from queen_durable.instances i
join queen_durable.executions e on e.instance = i.instance and e.execution_id = i.current_execution_id
