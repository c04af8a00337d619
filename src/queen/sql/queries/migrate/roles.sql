-- Makes the four roles (nobody can log in as them: they are granted to those who can) where they are missing, and gives them their
-- rights on this database. Locks: catalogue rows.
do $$
declare
    wanted text;
begin
    foreach wanted in array array['queen_producer', 'queen_consumer', 'queen_observer', 'queen_admin'] loop
        if not exists (select from pg_roles where rolname = wanted) then
            begin
                execute format('create role %I nologin', wanted);
            exception when duplicate_object or unique_violation then
                null;  -- somebody made it at this moment, for another database of the server
            end;
        end if;
    end loop;
    insert into queen.settings (key, value) values ('roles', 'true') on conflict (key) do update set value = excluded.value;
    perform queen.grant_roles();
end
$$
