-- Promises: how far each lake known to the database is.
-- Locks: nothing.
select lake::text as lake, source, place, pos, until, updated_at from queen.archive_positions order by place, source
