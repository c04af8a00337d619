-- Live values: the previous executions overlaid by the current one; a null key means all.
select coalesce(d.key, s.key) as key, case when d.key is null then s.value else d.value end as value,
       coalesce(d.updated_at, s.updated_at) as updated_at
from (select * from queen_durable.kv_delta where instance = $1) as d
full join (select * from queen_durable.kv_store where instance = $1) as s on s.key = d.key
where ($2::text is null or coalesce(d.key, s.key) = $2)
  and case when d.key is null then s.value else d.value end is not null
