-- Promises: hands out the longest-waiting key of a queue with all its visible messages, or the longest-waiting message without a
--   key, under a fresh token, and counts the attempt. No rows when nothing is ready. Losing a race for one key it tries the next.
-- Locks: the row of the key or message it takes; it never waits for one.
create or replace function queen_durable.mailbox_dequeue(p_queue text, p_lock_ms bigint, p_now bigint)
returns table (routing_key text, token text, id bigint, body bytea, attempts integer)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_now    bigint := queen_durable.clock_ms(p_now);
    v_token  text := gen_random_uuid()::text;
    v_key    record;
    v_single record;
begin
    select k.routing_key, k.ready_at into v_key
    from queen_durable.mailbox_keys k
    where k.queue = p_queue and k.handler = '' and k.ready_at <= v_now
    order by k.ready_at limit 1
    for update skip locked;
    select m.id, m.visible_at into v_single
    from queen_durable.mailbox_messages m
    where m.queue = p_queue and m.routing_key is null and m.visible_at <= v_now
    order by m.visible_at, m.id limit 1
    for update skip locked;

    if v_single.id is not null and (v_key.routing_key is null or v_single.visible_at < v_key.ready_at) then
        return query
        update queen_durable.mailbox_messages m
        set lock_token = v_token, locked_until = v_now + p_lock_ms, visible_at = v_now + p_lock_ms,
            attempts = m.attempts + 1
        where m.id = v_single.id
        returning null::text, v_token, m.id, m.body, m.attempts;
    elsif v_key.routing_key is not null then
        update queen_durable.mailbox_keys k
        set lock_token = v_token, locked_until = v_now + p_lock_ms, ready_at = v_now + p_lock_ms,
            held_until = null
        where k.queue = p_queue and k.routing_key = v_key.routing_key;
        return query
        with stamped as (
            update queen_durable.mailbox_messages m
            set lock_token = v_token, attempts = m.attempts + 1
            where m.queue = p_queue and m.routing_key = v_key.routing_key and m.visible_at <= v_now
            returning m.order_at, m.id, m.body, m.attempts
        )
        select v_key.routing_key, v_token, s.id, s.body, s.attempts from stamped s order by s.order_at, s.id;
    end if;
end $$;
