-- Promises: locks up to p_most wanted instances that have visible messages and no live lock, longest-waiting first, each under a
--   fresh token; hands out all their visible messages and counts the attempt; others are not touched. Returns the keys.
-- Locks: the rows of the keys it takes; it never waits for one.
create or replace function queen_durable.lock_instances(
    p_wanted queen_durable.wanted_instances, p_most integer, p_now bigint
) returns text[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
    v_keys   text[] := queen_durable.ready_instances(p_wanted, p_most, p_now);
    v_tokens text[];
begin
    if cardinality(v_keys) = 0 then
        return v_keys;
    end if;
    v_tokens := array(select gen_random_uuid()::text from unnest(v_keys));
    update queen_durable.mailbox_keys k
    set lock_token = v_tokens[array_position(v_keys, k.routing_key)],
        locked_until = p_now + p_wanted.lock_ms, ready_at = p_now + p_wanted.lock_ms, held_until = null
    where k.queue = 'orchestrator' and k.routing_key = any (v_keys);
    update queen_durable.mailbox_messages m
    set lock_token = v_tokens[array_position(v_keys, m.routing_key)], attempts = m.attempts + 1
    where m.queue = 'orchestrator' and m.routing_key = any (v_keys) and m.visible_at <= p_now;
    return v_keys;
end $$;
