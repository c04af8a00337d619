-- Forget that files were applied. Locks: their rows.
delete from schema_migrations
where kind = $1 and name = any ($2::text[])
