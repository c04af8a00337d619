-- Promises: when the next wanted instance that is not ready becomes so, and whether there is one that is ready now.
-- Locks: nothing.
create or replace function queen_durable.due_instances(p_wanted queen_durable.wanted_instances, p_now bigint)
returns table (ready_at bigint, again boolean)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
begin
    if p_wanted.unknown_ms is not null then
        return query select null::bigint, false;
    else
        return query
        select min(later.ready_at), coalesce(bool_or(now.ready), false)
        from unnest(p_wanted.handlers) as wanted (handler)
        left join lateral (
            select k.ready_at from queen_durable.mailbox_keys k
            where k.queue = 'orchestrator' and k.handler = wanted.handler and k.ready_at > p_now
            order by k.ready_at limit 1
        ) as later on true
        left join lateral (
            select true as ready from queen_durable.mailbox_keys k
            where k.queue = 'orchestrator' and k.handler = wanted.handler and k.ready_at <= p_now
              and queen_durable.is_supported(k.routing_key, p_wanted.lows, p_wanted.highs)
            order by k.ready_at limit 1
        ) as now on true;
    end if;
end $$;
