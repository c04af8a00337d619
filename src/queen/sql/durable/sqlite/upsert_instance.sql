-- Creates an instance, or updates its name and version; the parent never changes.
insert into instances (instance, name, version, current_execution_id, parent_instance, trace_id, created_at, updated_at)
values (:instance, :name, :version, :execution_id, :parent_instance, :trace_id, :now, :now)
on conflict (instance) do update set name = excluded.name, version = excluded.version
