do $$
declare
    v_name text;
begin
    for v_name in select c.relname from pg_catalog.pg_class c
                   where c.relnamespace = 'queen'::regnamespace and c.relkind = 'r' and c.relname like 'spark\_stage\_%' loop
        execute format('drop table queen.%I', v_name);
    end loop;
end $$;
drop table queen.sink_batches, queen.sinks, queen.removals;
drop sequence queen.removal_number;
drop index queen.messages_by_pos;
create index messages_by_pos on queen.messages using brin (pos) with (pages_per_range = 32, autosummarize = on);
