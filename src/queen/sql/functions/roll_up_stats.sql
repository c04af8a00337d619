-- Promises: sums the minutes of up to p_hours hours up into queen.stats_hourly, the oldest first, each hour once and only when it ended
--   five minutes ago or longer: whoever collects statistics has written the last of its minutes then. Hours without statistics are
--   passed over and stay gaps. Returns how many rows it wrote; 0: nothing is left to sum up.
-- Locks: nothing of the verbs.
create or replace function queen.roll_up_stats(p_hours integer default 48) returns bigint
language plpgsql volatile as $$
declare
    v_origin constant timestamptz := '1970-01-01 00:00:00+00';
    v_until  constant timestamptz := date_bin('1 hour', queen.clock() - interval '5 minutes', v_origin);
    v_from   timestamptz;
    v_count  bigint;
begin
    select coalesce(max(h.bucket) + interval '1 hour', '-infinity') into v_from from queen.stats_hourly h;
    select date_bin('1 hour', min(s.bucket), v_origin) into v_from from queen.stats s where s.bucket >= v_from;
    if v_from is null then
        return 0;
    end if;
    insert into queen.stats_hourly (queue_id, bucket, pushed, popped, acked, failed, lag, max_lag_ms)
    select s.queue_id, date_bin('1 hour', s.bucket, v_origin), sum(s.pushed), sum(s.popped), sum(s.acked), sum(s.failed), avg(s.lag),
           max(s.max_lag_ms)
      from queen.stats s
     where s.bucket >= v_from and s.bucket < least(v_until, v_from + make_interval(hours => p_hours))
     group by 1, 2
        on conflict do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
