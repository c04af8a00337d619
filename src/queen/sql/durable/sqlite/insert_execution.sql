-- Creates an execution, running, unless it exists.
insert into executions (instance, execution_id, started_at)
values (:instance, :execution_id, :now)
on conflict do nothing
