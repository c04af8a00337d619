-- Every function of a schema ($1) as it is called among the objects of a file, with its body. Locks: nothing.
select identified.type || ' ' || identified.identity as object, p.prosrc as body
from pg_proc p
cross join lateral pg_identify_object('pg_proc'::regclass, p.oid, 0) identified
where p.pronamespace = to_regnamespace($1)
