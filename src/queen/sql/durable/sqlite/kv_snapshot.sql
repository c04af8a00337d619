-- Keys as the previous execution left them.
select key, value, updated_at from kv_store where instance = :instance
