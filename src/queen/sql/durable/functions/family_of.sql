-- Promises: these instances and all their descendants, parents before children.
-- Locks: nothing.
create or replace function queen_durable.family_of(p_roots text[]) returns text[]
language sql stable as $$
    with recursive tree (instance, depth, id) as (
        select i.instance, 0, i.id from queen_durable.instances i where i.instance = any (p_roots)
        union
        select child.instance, tree.depth + 1, child.id
        from tree
        join queen_durable.instances child on child.parent_instance = tree.instance
    )
    select coalesce(array_agg(instance order by depth, id), array[]::text[]) from tree
$$;
