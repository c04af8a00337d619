-- What was applied to the schema of the search path, migrations first, in order.
select kind, name, checksum, objects, applied_at
from schema_migrations
order by kind desc, name
