-- Ends an execution: the next one starts without changes.
delete from kv_delta where instance = :instance
