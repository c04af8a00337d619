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
    delete from queen.sink_seals s using queen.sinks k
     where k.id = s.sink_id and k.name = p_sink
       and (p_forget or not exists (select from queen.sink_batches b where b.sink_id = s.sink_id and b.batch = s.batch));
    for r in select 'spark_stage_' || s.id as stage, p_drop or s.name <> p_sink as drop, s.name = p_sink as mine,
                    (select array_agg(n) from queen.sink_seals e, unnest(e.stages) n where e.sink_id = s.id) as needed
               from queen.sinks s
              where (s.name = p_sink or s.used_at < queen.clock() - p_idle) and to_regclass('queen.spark_stage_' || s.id) is not null loop
        begin
            if r.mine and r.needed is not null then
                execute format('delete from queen.%I where stage <> all ($1)', r.stage) using r.needed;
            else
                execute format(case when r.drop then 'drop table queen.%I' else 'truncate queen.%I' end, r.stage);
            end if;
        exception when lock_not_available or undefined_table then
            null;
        end;
    end loop;
    if p_forget then
        delete from queen.sinks s where s.name = p_sink and to_regclass('queen.spark_stage_' || s.id) is null;
    end if;
end $$;
