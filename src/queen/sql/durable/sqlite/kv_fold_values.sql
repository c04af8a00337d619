-- Ends an execution: its changes become the state the next one starts from.
insert into kv_store (instance, key, value, updated_at)
select instance, key, value, updated_at from kv_delta where instance = :instance and value is not null
on conflict (instance, key) do update set value = excluded.value, updated_at = excluded.updated_at
