-- A page of instances, newest first, below the id $1; null conditions are off.
select i.instance, i.name, i.version, i.current_execution_id, e.status, e.output, i.parent_instance,
       i.created_at, i.updated_at, i.custom_status, i.custom_status_version, i.trace_id, i.id
from queen_durable.instances i
join queen_durable.executions e on e.instance = i.instance and e.execution_id = i.current_execution_id
where ($1::bigint is null or i.id < $1)
  and ($2::text is null or i.name = $2)
  and ($3::text is null or e.status = $3)
  and ($4::text is null or i.parent_instance = $4)
  and ($5::text is null or i.trace_id = $5)
  and ($6::bigint is null or i.created_at >= $6)
  and ($7::bigint is null or i.created_at < $7)
  and ($8::text is null or starts_with(i.instance, $8))
order by i.id desc
limit $9
