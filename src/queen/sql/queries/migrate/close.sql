-- After functions were made or replaced: nothing of the schema named by the search path is executable by everybody, and the roles of
-- `queen init --roles`, where it was run, may do what they may. Locks: catalogue rows.
do $$
begin
    execute format('revoke all on all routines in schema %I from public', trim(both '"' from current_setting('search_path')));
    if to_regprocedure('queen.grant_roles()') is not null then
        if exists (select from queen.settings s where s.key = 'roles' and s.value = 'true')
           and exists (select from pg_roles r where r.rolname = 'queen_producer') then
            perform queen.grant_roles();
        end if;
    end if;
end
$$
