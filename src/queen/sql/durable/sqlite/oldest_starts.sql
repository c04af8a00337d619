-- The starts of a group that are free first.
select id, free_at from starts where limit_group = :limit_group order by free_at, id limit :limit
