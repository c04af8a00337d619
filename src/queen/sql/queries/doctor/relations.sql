-- Every table, index, view and sequence of a schema ($1). Locks: nothing.
select c.relname as name,
       case c.relkind when 'r' then 'table' when 'p' then 'table' when 'v' then 'view' when 'S' then 'sequence' else 'index' end as kind
from pg_class c
where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p', 'v', 'S', 'i', 'I')
