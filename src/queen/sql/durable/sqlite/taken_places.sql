-- How many places of a group are taken, by how many that did not start yet, and how many starts are remembered.
select count(*), coalesce(sum(started_at is null), 0), (select count(*) from starts where limit_group = :limit_group)
from places
where limit_group = :limit_group and ready_at is not null
