-- Promises: locks up to p_limit instances that have visible messages and no live lock, longest-waiting first, each under a
--   fresh token; hands out all their visible messages and counts the attempt. With version bounds only instances whose
--   current execution has a pinned version in one of the ranges, or none; others are not touched. Returns the keys.
-- Locks: the rows of the keys it takes; it never waits for one.
create or replace function queen_durable.lock_instances(
    p_limit integer, p_locked_until bigint, p_lows bigint[], p_highs bigint[], p_now bigint
) returns text[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
    v_keys   text[];
    v_tokens text[];
begin
    select array_agg(ready.routing_key)
    into v_keys
    from (
        select k.routing_key
        from queen_durable.mailbox_keys k
        where k.queue = 'orchestrator' and k.ready_at <= p_now
          and queen_durable.is_supported(k.routing_key, p_lows, p_highs)
        order by k.ready_at
        limit p_limit
        for update of k skip locked
    ) as ready;
    if v_keys is null then
        return array[]::text[];
    end if;

    v_tokens := array(select gen_random_uuid()::text from unnest(v_keys));
    update queen_durable.mailbox_keys k
    set lock_token = v_tokens[array_position(v_keys, k.routing_key)],
        locked_until = p_locked_until, ready_at = p_locked_until
    where k.queue = 'orchestrator' and k.routing_key = any (v_keys);
    update queen_durable.mailbox_messages m
    set lock_token = v_tokens[array_position(v_keys, m.routing_key)], attempts = m.attempts + 1
    where m.queue = 'orchestrator' and m.routing_key = any (v_keys) and m.visible_at <= p_now;
    return v_keys;
end $$;
