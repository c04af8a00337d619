-- Promises: creates or updates the instance and execution rows of turns. An instance comes into being with its name and
--   version, which is from then on the code its key needs; its parent never changes; its current execution only rises. A new
--   execution starts without a pinned version; a null leaves a value as it is. A told custom status sets or clears the value
--   and raises its version by one. A parked execution runs again with the next turn that does not park it.
-- Locks: the caller holds the keys of the turns; here their instance and execution rows.
create or replace function queen_durable.describe_turns(
    p_instances text[], p_turns queen_durable.turn_row[], p_now bigint
) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
begin
    if exists (select from unnest(p_turns) as turn where turn.name is not null) then
        insert into queen_durable.instances as i
            (instance, name, version, current_execution_id, parent_instance, trace_id, created_at, updated_at)
        select turn.instance, turn.name, turn.version, turn.execution_id, turn.parent, turn.trace_id, p_now, p_now
        from queen_durable.described_turns(p_instances, p_turns) as turn
        where turn.name is not null and turn.version is not null
        order by turn.n
        on conflict (instance) do update set name = excluded.name, version = excluded.version
        where i.name <> excluded.name or i.version <> excluded.version;
        update queen_durable.mailbox_keys k
        set handler = (
            select turn.name || '@' || turn.version from queen_durable.described_turns(p_instances, p_turns) as turn
            where turn.instance = k.routing_key
        )
        where k.queue = 'orchestrator' and k.routing_key = any (array(
            select turn.instance from queen_durable.described_turns(p_instances, p_turns) as turn
            where turn.name is not null and turn.version is not null
        ));
    end if;

    with described as (
        update queen_durable.instances i
        set (pinned_version, current_execution_id, custom_status, custom_status_version, updated_at) = (
            select case
                       when turn.execution_id > i.current_execution_id then turn.pinned_version
                       when turn.execution_id = i.current_execution_id
                           then coalesce(turn.pinned_version, i.pinned_version)
                       else i.pinned_version
                   end,
                   greatest(i.current_execution_id, turn.execution_id),
                   case when turn.told_status then turn.custom_status else i.custom_status end,
                   i.custom_status_version + turn.told_status::integer,
                   p_now
            from queen_durable.described_turns(p_instances, p_turns) as turn
            where turn.instance = i.instance
        )
        where i.instance = any (p_instances)
        returning i.instance
    )
    insert into queen_durable.executions as e
        (instance, execution_id, status, output, pinned_version, started_at, completed_at)
    select turn.instance, turn.execution_id, coalesce(turn.status, 'Running'),
           case when turn.status is not null then turn.output end, turn.pinned_version, p_now,
           case when turn.status <> 'Parked' then p_now end
    from described
    join queen_durable.described_turns(p_instances, p_turns) as turn on turn.instance = described.instance
    on conflict (instance, execution_id) do update
    set status = case when excluded.status = 'Running' and e.status <> 'Parked' then e.status else excluded.status end,
        output = case when excluded.status = 'Running' and e.status <> 'Parked' then e.output else excluded.output end,
        completed_at = coalesce(excluded.completed_at, e.completed_at),
        pinned_version = coalesce(excluded.pinned_version, e.pinned_version)
    where excluded.status <> 'Running' or e.status = 'Parked' or excluded.pinned_version is not null;
end $$;
