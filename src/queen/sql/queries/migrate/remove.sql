-- Drop the memory of migrations, and the schema of the search path if nothing is left in it.
-- Locks: the table and the schema.
do $$
declare
    wanted text := trim(both '"' from current_setting('search_path'));
begin
    if to_regnamespace(quote_ident(wanted)) is null then
        return;
    end if;
    execute format('drop table if exists %I.schema_migrations', wanted);
    begin
        execute format('drop schema %I', wanted);
    exception when dependent_objects_still_exist then
        null;
    end;
end
$$
