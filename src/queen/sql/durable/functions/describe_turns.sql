-- Promises: creates or updates the instance and execution rows of turns. An instance comes into being with its name and
--   version; its parent never changes; its current execution only rises. A new execution starts without a pinned version; a null
--   leaves a value as it is. A told custom status sets or clears the value and raises its version by one.
--   A parked execution runs again with the next turn that does not park it.
-- Locks: the caller holds the keys of the turns; here their instance and execution rows.
create or replace function queen_durable.describe_turns(
    p_instances text[], p_executions integer[], p_names text[], p_versions text[], p_parents text[], p_traces text[],
    p_statuses text[], p_outputs text[], p_pinned bigint[], p_told_status boolean[], p_custom_status text[],
    p_now bigint
) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
begin
    insert into queen_durable.instances as i
        (instance, name, version, current_execution_id, parent_instance, trace_id, created_at, updated_at)
    select turn.instance, turn.name, turn.version, turn.execution_id, turn.parent, turn.trace, p_now, p_now
    from unnest(p_instances, p_executions, p_names, p_versions, p_parents, p_traces) with ordinality
        as turn (instance, execution_id, name, version, parent, trace, n)
    where turn.instance is not null and turn.name is not null and turn.version is not null
    order by turn.n
    on conflict (instance) do update set name = excluded.name, version = excluded.version
    where i.name <> excluded.name or i.version <> excluded.version;

    with described as (
        update queen_durable.instances i
        set (pinned_version, current_execution_id, custom_status, custom_status_version, updated_at) = (
            select case
                       when turn.execution_id > i.current_execution_id then turn.pinned
                       when turn.execution_id = i.current_execution_id then coalesce(turn.pinned, i.pinned_version)
                       else i.pinned_version
                   end,
                   greatest(i.current_execution_id, turn.execution_id),
                   case when turn.told then turn.custom_status else i.custom_status end,
                   i.custom_status_version + turn.told::integer,
                   p_now
            from unnest(p_instances, p_executions, p_pinned, p_told_status, p_custom_status)
                as turn (instance, execution_id, pinned, told, custom_status)
            where turn.instance = i.instance
        )
        where i.instance = any (p_instances)
        returning i.instance
    )
    insert into queen_durable.executions as e
        (instance, execution_id, status, output, pinned_version, started_at, completed_at)
    select turn.instance, turn.execution_id, coalesce(turn.status, 'Running'),
           case when turn.status is not null then turn.output end, turn.pinned, p_now,
           case when turn.status <> 'Parked' then p_now end
    from described
    join unnest(p_instances, p_executions, p_statuses, p_outputs, p_pinned)
        as turn (instance, execution_id, status, output, pinned) on turn.instance = described.instance
    on conflict (instance, execution_id) do update
    set status = case when excluded.status = 'Running' and e.status <> 'Parked' then e.status else excluded.status end,
        output = case when excluded.status = 'Running' and e.status <> 'Parked' then e.output else excluded.output end,
        completed_at = coalesce(excluded.completed_at, e.completed_at),
        pinned_version = coalesce(excluded.pinned_version, e.pinned_version)
    where excluded.status <> 'Running' or e.status = 'Parked' or excluded.pinned_version is not null;
end $$;
