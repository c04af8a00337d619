-- Clears every key in the current execution.
insert into kv_delta (instance, key, value, updated_at)
select :instance, key, null, :now
from (
    select key from kv_store where instance = :instance
    union
    select key from kv_delta where instance = :instance
)
where true
on conflict (instance, key) do update set value = null, updated_at = excluded.updated_at
