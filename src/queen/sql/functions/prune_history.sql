-- Promises: removes up to p_limit rows each of what is older than p_keep: statistics, traces, what retention removed; statistics by the
--   hour no sooner than after 35 days, and the ticks of services older than an hour. Returns how many rows went; found by time, the
--   oldest first.
-- Locks: nothing of the verbs.
create or replace function queen.prune_history(p_keep interval, p_limit integer default 1000) returns bigint
language plpgsql volatile as $$
declare
    v_until timestamptz := queen.clock() - p_keep;
    v_count bigint;
begin
    with old_stats as (
        delete from queen.stats where (queue_id, bucket) in (
            select queue_id, bucket from queen.stats where bucket < v_until order by bucket limit p_limit) returning 1
    ), old_hours as (
        delete from queen.stats_hourly where (queue_id, bucket) in (
            select queue_id, bucket from queen.stats_hourly where bucket < least(v_until, queen.clock() - interval '35 days')
             order by bucket limit p_limit) returning 1
    ), old_traces as (
        delete from queen.traces where id in (
            select id from queen.traces where created_at < v_until order by created_at limit p_limit) returning 1
    ), old_removals as (
        delete from queen.retention_history where id in (
            select id from queen.retention_history where executed_at < v_until order by executed_at limit p_limit) returning 1
    )
    select (select count(*) from old_stats) + (select count(*) from old_hours) +
            (select count(*) from old_traces) + (select count(*) from old_removals) into v_count;
    delete from queen.service_ticks where started_at < queen.clock() - interval '1 hour';
    return v_count;
end $$;
