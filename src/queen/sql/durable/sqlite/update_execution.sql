-- Stores how an execution stands: status, output, pinned version; null leaves a value as it is.
update executions
set status = coalesce(:status, status),
    output = case when :status is null then output else :output end,
    completed_at = case when :status is null then completed_at else :now end,
    pinned_version = coalesce(:pinned_version, pinned_version)
where instance = :instance and execution_id = :execution_id
