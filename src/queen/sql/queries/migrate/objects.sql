-- Every function, view and trigger of a schema ($1) with a stamp that changes when it is replaced.
-- "object" is what may follow the word drop. Locks: nothing.
with present as (
    select 'pg_proc'::regclass as class, p.oid, p.ctid
    from pg_proc p
    where p.pronamespace = to_regnamespace($1)
    union all
    select 'pg_class'::regclass, c.oid, r.ctid
    from pg_class c
    join pg_rewrite r on r.ev_class = c.oid and r.rulename = '_RETURN'
    where c.relnamespace = to_regnamespace($1) and c.relkind = 'v'
    union all
    select 'pg_trigger'::regclass, t.oid, t.ctid
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid
    where c.relnamespace = to_regnamespace($1) and not t.tgisinternal
)
select identified.type || ' ' || identified.identity as object, present.ctid::text as stamp
from present
cross join lateral pg_identify_object(present.class, present.oid, 0) identified
