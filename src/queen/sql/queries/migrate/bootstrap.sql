-- Make the schema named by the search path, and in it the table that remembers what was applied.
-- Locks: nothing that exists already.
do $$
declare
    wanted text := trim(both '"' from current_setting('search_path'));
begin
    if to_regnamespace(quote_ident(wanted)) is null then
        execute format('create schema %I', wanted);
    end if;
    execute format(
        'create table if not exists %I.schema_migrations (
            kind text not null check (kind in (''migration'', ''function'')),
            name text not null,
            checksum text not null,
            objects text[] not null default ''{}'',
            applied_at timestamptz not null default clock_timestamp(),
            primary key (kind, name)
        )',
        wanted
    );
end
$$
