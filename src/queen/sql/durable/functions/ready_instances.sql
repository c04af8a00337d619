-- Promises: the keys of up to p_wanted.most instances that may be handed out now, longest-waiting first: those whose code is among
--   p_wanted.handlers, or, with unknown_ms, those that waited for so long for code no worker has announced since. With
--   version bounds only instances whose current execution has a pinned version in one of the ranges, or none.
-- Locks: the rows of the keys; those another session is just taking are skipped.
create or replace function queen_durable.ready_instances(
    p_wanted queen_durable.wanted_instances, p_most integer, p_now bigint
) returns text[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
begin
    if p_wanted.unknown_ms is null then
        return array(
            select found.routing_key
            from unnest(p_wanted.handlers) as wanted (handler)
            cross join lateral (
                select k.routing_key, k.ready_at
                from queen_durable.mailbox_keys k
                where k.queue = 'orchestrator' and k.handler = wanted.handler and k.ready_at <= p_now
                  and queen_durable.is_supported(k.routing_key, p_wanted.lows, p_wanted.highs)
                order by k.ready_at
                limit p_most
                for update of k skip locked
            ) as found
            order by found.ready_at
            limit p_most
        );
    end if;
    return array(
        select k.routing_key
        from queen_durable.mailbox_keys k
        where k.queue = 'orchestrator' and k.ready_at <= p_now - p_wanted.unknown_ms and k.handler <> ''
          and not exists (
            select from queen_durable.handlers known
            where known.queue = 'orchestrator' and known.name = k.handler
              and known.seen_at > p_now - p_wanted.unknown_ms
          )
          and queen_durable.is_supported(k.routing_key, p_wanted.lows, p_wanted.highs)
        order by k.ready_at
        limit p_most
        for update of k skip locked
    );
end $$;
