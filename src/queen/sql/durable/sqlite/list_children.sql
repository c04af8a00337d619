-- Direct children, oldest first.
select instance from instances where parent_instance = :instance order by id
