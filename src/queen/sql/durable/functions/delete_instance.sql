-- Promises: deletes a root and all its descendants, or says why not: 'not_found', 'child', 'running'.
-- Locks: as erase_instances.
create or replace function queen_durable.delete_instance(p_instance text, p_force boolean)
returns table (refusal text, instances bigint, executions bigint, events bigint, messages bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_found queen_durable.instances;
begin
    perform queen_durable.lock_keys(queen_durable.family_of(array[p_instance]));
    select * into v_found from queen_durable.instances i where i.instance = p_instance;
    if v_found.instance is null then
        return query select 'not_found', 0::bigint, 0::bigint, 0::bigint, 0::bigint;
    elsif v_found.parent_instance is not null then
        return query select 'child', 0::bigint, 0::bigint, 0::bigint, 0::bigint;
    elsif not p_force and queen_durable.is_running(array[p_instance]) then
        return query select 'running', 0::bigint, 0::bigint, 0::bigint, 0::bigint;
    else
        return query select null::text, e.* from queen_durable.erase_instances(array[p_instance]) e;
    end if;
end $$;
