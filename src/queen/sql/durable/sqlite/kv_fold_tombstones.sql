-- Ends an execution: keys it cleared are gone.
delete from kv_store
where instance = :instance
  and key in (select key from kv_delta where instance = :instance and value is null)
