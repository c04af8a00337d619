-- An instance and all its descendants, parents before children.
with recursive tree (instance, depth, id) as (
    select instance, 0, id from instances where instance = :instance
    union
    select child.instance, tree.depth + 1, child.id
    from tree
    join instances as child on child.parent_instance = tree.instance
)
select instance from tree order by depth, id
