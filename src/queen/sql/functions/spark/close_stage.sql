-- Promises: rows of the sink that wait are gone, those of failed and forgotten attempts too; with p_drop also the table, with p_forget every
--   trace of the sink. What a batch that is stored in part still needs stays, unless p_forget. A table someone still writes into is left
--   for the next time. Tables of sinks nobody used for p_idle go as well.
-- Locks: the stage tables, for at most two seconds each.
create or replace function queen.close_stage(p_sink text, p_drop boolean, p_forget boolean, p_idle interval default '7 days')
returns void
language plpgsql volatile
set lock_timeout = '2s' as $$
declare
    r record;
begin
    for r in select c.relname as table, c.relname like 'spark\_stage\_%' and not p_drop and s.name = p_sink as keep
               from queen.sinks s
               join pg_class c on c.relnamespace = 'queen'::regnamespace and c.relkind = 'r'
                              and (c.relname = 'spark_stage_' || s.id or c.relname like 'spark\_batch\_' || s.id || '\_%')
              where (s.name = p_sink or s.used_at < queen.clock() - p_idle)
                and (c.relname like 'spark\_stage\_%' or p_forget or s.name <> p_sink
                     or not exists (select from queen.sink_batches b
                                     where b.sink_id = s.id and c.relname = format('spark_batch_%s_%s', s.id, b.batch))) loop
        begin
            execute format(case when r.keep then 'truncate queen.%I' else 'drop table queen.%I' end, r.table);
        exception when lock_not_available or undefined_table then
            null;
        end;
    end loop;
    if p_forget then
        delete from queen.sinks s where s.name = p_sink and to_regclass('queen.spark_stage_' || s.id) is null;
    end if;
end $$;
