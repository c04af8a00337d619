-- Raises the current execution to at least :execution_id. A new execution starts without a pinned version.
update instances
set pinned_version = case
        when :execution_id > current_execution_id then :pinned_version
        when :execution_id = current_execution_id then coalesce(:pinned_version, pinned_version)
        else pinned_version
    end,
    current_execution_id = max(current_execution_id, :execution_id),
    updated_at = :now
where instance = :instance
