-- Direct children, oldest first.
select instance from queen_durable.instances where parent_instance = $1 order by id
