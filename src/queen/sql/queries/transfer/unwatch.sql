-- The source tells no more of its changes: drops every trigger that queen_transfer.watch made, and what they write to.
do $$
declare
    t record;
begin
    for t in select tgname, tgrelid::regclass as "table" from pg_trigger where tgname ~ '^queen_transfer_(insert|update|delete)$' loop
        execute format('drop trigger %I on %s', t.tgname, t.table);
    end loop;
end $$;
