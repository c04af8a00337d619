-- Creates an execution, running, unless it exists, and stores how it stands: a null leaves a value as it is,
-- but a parked execution runs again.
insert into executions (instance, execution_id, status, output, pinned_version, started_at, completed_at)
values (
    :instance, :execution_id, coalesce(:status, 'Running'), case when :status is null then null else :output end,
    :pinned_version, :now, case when :status <> 'Parked' then :now end
)
on conflict (instance, execution_id) do update
set status = case when :status is null and executions.status <> 'Parked' then executions.status else excluded.status end,
    output = case when :status is null and executions.status <> 'Parked' then executions.output else excluded.output end,
    completed_at = coalesce(excluded.completed_at, executions.completed_at),
    pinned_version = coalesce(excluded.pinned_version, executions.pinned_version)
where :status is not null or executions.status = 'Parked' or excluded.pinned_version is not null
