-- Every column of the tables of a schema, with its type.
select c.relname as table, a.attname as column, format_type(a.atttypid, null) as type
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where n.nspname = $1 and c.relkind in ('r', 'p')
