-- Promises: the partitions exist, with cursor rows for every group registered; their ids in the order given.
-- Locks: as queen.create_partitions.
select n.id from unnest(queen.create_partitions($1::text[], $2::text[])) with ordinality n(id, place) order by n.place
