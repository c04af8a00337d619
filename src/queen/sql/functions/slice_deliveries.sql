-- Promises: the delivery log has a slice for each of the next p_ahead days and none older than p_keep days; returns slices made and dropped.
--   Rows that reached the default slice stay there and age out by deletion.
-- Locks: the log table briefly, under the caller's lock_timeout: run it again if it could not get in.
create or replace function queen.slice_deliveries(p_ahead integer default 3, p_keep integer default 7)
returns table (made integer, dropped integer)
language plpgsql volatile as $$
declare
    v_today date := (queen.clock() at time zone 'utc')::date;
    v_name  text;
    s       record;
begin
    made := 0;
    dropped := 0;
    for i in 0 .. p_ahead loop
        v_name := 'deliveries_' || to_char(v_today + i, 'YYYYMMDD');
        if to_regclass('queen.' || v_name) is null
           and not exists (select from queen.deliveries_default
                            where ended_at >= (v_today + i)::timestamp at time zone 'utc'
                              and ended_at < (v_today + i + 1)::timestamp at time zone 'utc') then
            execute format('create table queen.%I partition of queen.deliveries for values from (%L) to (%L)', v_name,
                (v_today + i)::timestamp at time zone 'utc', (v_today + i + 1)::timestamp at time zone 'utc');
            made := made + 1;
        end if;
    end loop;
    for s in
        select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
         where i.inhparent = 'queen.deliveries'::regclass and c.relname ~ '^deliveries_[0-9]{8}$'
           and to_date(right(c.relname, 8), 'YYYYMMDD') < v_today - p_keep
    loop
        execute format('drop table queen.%I', s.relname);
        dropped := dropped + 1;
    end loop;
    delete from queen.deliveries_default where ended_at < (v_today - p_keep)::timestamp at time zone 'utc';
    return next;
end $$;
