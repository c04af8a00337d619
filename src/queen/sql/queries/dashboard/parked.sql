-- The workflows that are parked, the longest first, at most $1 of them.
select i.instance, i.name, e.started_at, i.updated_at, e.output
  from queen_durable.executions e
  join queen_durable.instances i on i.instance = e.instance and i.current_execution_id = e.execution_id
 where e.status = 'Parked'
 order by e.started_at, e.instance limit $1
