-- The copy becomes the schema queen. Its triggers are on again.
do $$
declare
    t record;
begin
    for t in select distinct tgrelid::regclass as "table" from pg_trigger join pg_class c on c.oid = tgrelid
              where not tgisinternal and c.relnamespace = 'queen_next'::regnamespace loop
        execute format('alter table %s enable trigger user', t.table);
    end loop;
end $$;
alter schema queen_next rename to queen
