-- Live values: the previous executions overlaid by the current one; :key null means all.
select key, value, updated_at from (
    select key, value, updated_at from kv_delta where instance = :instance
    union all
    select key, value, updated_at from kv_store
    where instance = :instance
      and not exists (
        select 1 from kv_delta
        where kv_delta.instance = kv_store.instance and kv_delta.key = kv_store.key
      )
)
where value is not null and (:key is null or key = :key)
