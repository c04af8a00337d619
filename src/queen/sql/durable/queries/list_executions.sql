-- Executions of an instance, ascending; a null execution means all.
select e.execution_id, e.status, e.output, e.started_at, e.completed_at,
       (select count(*) from queen_durable.history h
        where h.instance = e.instance and h.execution_id = e.execution_id),
       e.pinned_version
from queen_durable.executions e
where e.instance = $1 and ($2::integer is null or e.execution_id = $2)
order by e.execution_id
