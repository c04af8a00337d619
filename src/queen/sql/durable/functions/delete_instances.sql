-- Promises: deletes roots that have ended, oldest first, each with its descendants; trees still running are skipped. Null conditions
--   are off; an empty list of instances means none.
-- Locks: as erase_instances.
create or replace function queen_durable.delete_instances(
    p_instances text[], p_completed_before bigint, p_limit integer
) returns table (instances bigint, executions bigint, events bigint, messages bigint)
language plpgsql volatile as $$
#variable_conflict use_column
declare
    v_roots text[] := array(
        select i.instance
        from queen_durable.instances i
        join queen_durable.executions e on e.instance = i.instance and e.execution_id = i.current_execution_id
        where i.parent_instance is null and e.status in ('Completed', 'Failed', 'Cancelled')
          and (p_instances is null or i.instance = any (p_instances))
          and (p_completed_before is null or e.completed_at < p_completed_before)
          and not queen_durable.is_running(array[i.instance])
        order by i.id
        limit p_limit
    );
begin
    return query select e.* from queen_durable.erase_instances(v_roots) e;
end $$;
