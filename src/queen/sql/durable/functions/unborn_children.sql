-- Promises: children that these instances have scheduled and that do not exist yet.
-- Locks: nothing.
create or replace function queen_durable.unborn_children(p_parents text[]) returns text[]
language sql stable as $$
    select coalesce(array_agg(distinct h.data::json ->> 'child_instance'), array[]::text[])
    from queen_durable.history h
    where h.instance = any (p_parents) and h.kind = 'SubOrchestrationScheduled'
      and not exists (
        select from queen_durable.instances i where i.instance = h.data::json ->> 'child_instance'
    )
$$;
