-- The parent of an instance; no row when the instance is unknown.
select parent_instance from queen_durable.instances where instance = $1
