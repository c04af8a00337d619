-- Whether there is a schema of that name.
select exists (select from pg_namespace where nspname = $1)
