-- Instances with an ended execution before their current one, oldest first; null conditions are off.
select i.instance
from queen_durable.instances i
where i.current_execution_id > 1
  and ($1::text[] is null or i.instance = any ($1))
  and exists (
    select from queen_durable.executions e
    where e.instance = i.instance and e.execution_id < i.current_execution_id and e.status not in ('Running', 'Parked')
      and ($2::bigint is null or e.completed_at < $2)
  )
order by i.id
limit $3
