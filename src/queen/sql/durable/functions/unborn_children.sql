-- Promises: children that these instances have scheduled and that do not exist yet. Events that cannot be read name none.
-- Locks: nothing.
create or replace function queen_durable.unborn_children(p_parents text[]) returns text[]
language sql stable as $$
    select coalesce(array_agg(distinct children.child), array[]::text[])
    from (
        select ('"' || substring(h.data from '"child_instance":"((?:[^"\\[:cntrl:]]|\\["\\/bfnrt]|\\u[0-9a-f]{4})*)"') || '"')::json
               #>> '{}' as child
        from queen_durable.history h
        where h.instance = any (p_parents) and h.kind = 'SubOrchestrationScheduled'
    ) as children
    where children.child is not null
      and not exists (select from queen_durable.instances i where i.instance = children.child)
$$;
