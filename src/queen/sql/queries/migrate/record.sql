-- Remember that a file was applied and which objects it made. Locks: its own row.
insert into schema_migrations (kind, name, checksum, objects)
values ($1, $2, $3, $4)
on conflict (kind, name) do update
set checksum = excluded.checksum, objects = excluded.objects, applied_at = clock_timestamp()
