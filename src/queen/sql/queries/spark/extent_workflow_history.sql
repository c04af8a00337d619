-- Promises: the first and last time at which a workflow execution started.
-- Locks: nothing.
select to_timestamp(min(started_at) / 1000.0) as low, to_timestamp(max(started_at) / 1000.0) as high from queen_durable.executions
