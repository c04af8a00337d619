-- Promises: deletes old executions of instances with their events: ended ones older than the p_keep newest, completed before
--   p_completed_before if given; never the current one. Counts the instances looked at.
-- Locks: the keys of the instances, in key order.
create or replace function queen_durable.prune_executions(
    p_instances text[], p_keep integer, p_completed_before bigint
) returns table (instances bigint, executions bigint, events bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
#variable_conflict use_column
begin
    perform queen_durable.lock_keys(p_instances);
    with gone as (
        delete from queen_durable.executions e
        using queen_durable.instances i
        where i.instance = any (p_instances) and e.instance = i.instance
          and e.execution_id <= i.current_execution_id - p_keep
          and e.status not in ('Running', 'Parked')
          and (p_completed_before is null or e.completed_at < p_completed_before)
        returning e.instance, e.execution_id
    ), erased as (
        delete from queen_durable.history h
        using gone
        where h.instance = gone.instance and h.execution_id = gone.execution_id
        returning 1
    )
    select (select count(*) from gone), (select count(*) from erased),
           (select count(*) from queen_durable.instances i where i.instance = any (p_instances))
    into executions, events, instances;
    return next;
end $$;
