-- What the role lacks to read a schema $1, to watch it and to rename it; and to make schemas in this database.
select format('CREATE on the database %I', current_database()) as lacking
 where not has_database_privilege(current_database(), 'CREATE')
union all
select format('ownership of the schema %I', n.nspname)
  from pg_namespace n where n.nspname = $1 and not pg_has_role(n.nspowner, 'USAGE')
union all
select format('SELECT on %I.%I', n.nspname, c.relname)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = $1 and c.relkind = 'r' and not has_table_privilege(c.oid, 'SELECT')
union all
select format('ownership of the table %I.%I', n.nspname, c.relname)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = $1 and c.relkind = 'r' and not pg_has_role(c.relowner, 'USAGE')
