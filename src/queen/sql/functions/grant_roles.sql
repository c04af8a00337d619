-- Promises: the roles queen_producer, queen_consumer, queen_observer and queen_admin may do on this database what their names say and
--   nothing else: push; pop, ack, nack and renew; look at the views, which hold numbers and no payloads; call every function, read
--   and change every table. What they no longer may is taken back. Entry points run with the rights of the schema's owner
--   (security definer, with a search path of their own), so none of the first three needs a right on any table.
-- Locks: catalogue rows.
create or replace function queen.grant_roles() returns void
language plpgsql volatile as $$
declare
    f record;
begin
    revoke all on all routines in schema queen from queen_producer, queen_consumer, queen_observer, queen_admin;
    revoke all on all tables in schema queen from queen_producer, queen_consumer, queen_observer, queen_admin;
    grant usage on schema queen to queen_producer, queen_consumer, queen_observer, queen_admin;
    for f in
        select p.oid::regprocedure as signature, p.proname as name from pg_proc p
         where p.pronamespace = 'queen'::regnamespace and p.prosecdef
    loop
        if f.name in ('push', 'push_many') then
            execute format('grant execute on function %s to queen_producer', f.signature);
        elsif f.name in ('pop', 'ack', 'nack', 'renew') then
            execute format('grant execute on function %s to queen_consumer', f.signature);
        end if;
    end loop;
    for f in
        select c.oid::regclass as name from pg_class c where c.relnamespace = 'queen'::regnamespace and c.relkind = 'v'
    loop
        execute format('grant select on %s to queen_observer', f.name);
    end loop;
    grant execute on all routines in schema queen to queen_admin;
    grant select, insert, update, delete on all tables in schema queen to queen_admin;
    grant usage, select on all sequences in schema queen to queen_admin;
end $$;
