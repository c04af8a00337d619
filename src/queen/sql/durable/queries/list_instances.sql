-- A page of instances, newest first, below the id $1; null conditions are off.
-- $10 and $11 are keys and the values they must have; the first finds the candidates, a change hides what was stored.
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
  and (cardinality($10::text[]) = 0 or i.instance in (
      select d.instance from queen_durable.kv_delta d
      where starts_with(d.key, 'queen.attribute:') and d.key = ($10::text[])[1] and d.value = ($11::text[])[1]
      union all
      select s.instance from queen_durable.kv_store s
      where starts_with(s.key, 'queen.attribute:') and s.key = ($10::text[])[1] and s.value = ($11::text[])[1]
  ))
  and not exists (
      select from unnest($10::text[], $11::text[]) as wanted (key, value)
      left join queen_durable.kv_delta d on d.instance = i.instance and d.key = wanted.key
      left join queen_durable.kv_store s on s.instance = i.instance and s.key = wanted.key
      where wanted.value is distinct from case when d.key is null then s.value else d.value end
  )
order by i.id desc
limit $9
