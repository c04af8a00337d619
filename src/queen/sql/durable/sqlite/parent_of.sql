-- The parent of an instance; no row when the instance is unknown.
select parent_instance from instances where instance = :instance
