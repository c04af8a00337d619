-- Promises: the delivery log holds nothing older than p_keep days (at most fourteen). The log is a ring of sixteen tables, one for each day
--   in turn: a day that is over is truncated as a whole. A table that somebody reads is left for the next run; if that goes on until its
--   turn comes again, what is old in it is deleted row by row. Returns tables emptied, tables in use, and rows deleted.
-- Locks: the table of a day that is over, which no acknowledgement writes to; a reader waits a tenth of a second at most.
create or replace function queen.trim_deliveries(p_keep integer default 7, out emptied integer, out in_use integer, out removed bigint)
language plpgsql volatile set lock_timeout = '100ms' set enable_seqscan = off as $$
declare
    v_before date := (queen.clock() at time zone 'utc')::date - least(p_keep, 14);
    v_until  timestamptz := v_before::timestamp at time zone 'utc';
    v_table  text;
    v_some   boolean;
    v_count  bigint;
begin
    emptied := 0;
    in_use := 0;
    removed := 0;
    for day in 0 .. 15 loop
        v_table := format('queen.%I', 'deliveries_' || to_char(day, 'FM00'));
        execute format('select exists (select from %s where ended_at >= $1)', v_table) into v_some using v_until;
        begin
            if v_some then
                execute format('delete from %s where ctid = any (array(select ctid from %1$s where ended_at < $1 limit 10000))', v_table)
                  using v_until;
                get diagnostics v_count = row_count;
                removed := removed + v_count;
            else
                execute format('select exists (select from %s)', v_table) into v_some;
                if v_some then
                    execute format('truncate %s', v_table);
                    emptied := emptied + 1;
                end if;
            end if;
        exception when lock_not_available then
            in_use := in_use + 1;
        end;
    end loop;
end $$;
