-- The new schema waits under a name of its own. Its triggers are off until then: their functions speak of the schema queen.
do $$
declare
    t record;
begin
    for t in select distinct tgrelid::regclass as "table" from pg_trigger join pg_class c on c.oid = tgrelid
              where not tgisinternal and c.relnamespace = 'queen'::regnamespace loop
        execute format('alter table %s disable trigger user', t.table);
    end loop;
end $$;
alter schema queen rename to queen_next
