-- Promises: whether any of these instances, or a descendant, has not ended.
-- Locks: nothing.
create or replace function queen_durable.is_running(p_roots text[]) returns boolean
language sql stable as $$
    select exists (
        select from queen_durable.instances i
        join queen_durable.executions e on e.instance = i.instance and e.execution_id = i.current_execution_id
        where i.instance = any (queen_durable.family_of(p_roots)) and e.status in ('Running', 'Parked', 'ContinuedAsNew')
    )
$$;
