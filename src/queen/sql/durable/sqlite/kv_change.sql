-- Sets a key in the current execution, or clears it (null).
insert into kv_delta (instance, key, value, updated_at)
values (:instance, :key, :value, :updated_at)
on conflict (instance, key) do update set value = excluded.value, updated_at = excluded.updated_at
