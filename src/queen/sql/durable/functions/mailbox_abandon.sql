-- Promises: gives a batch back, in order, hidden for p_delay_ms together with what arrives for its key meanwhile; a key
--   queues up behind the others. False when the token holds no live lock.
-- Locks: the row of the key or message.
create or replace function queen_durable.mailbox_abandon(
    p_token text, p_delay_ms bigint, p_uncount integer, p_now bigint
) returns boolean
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_now bigint;
begin
    perform from queen_durable.mailbox_keys k where k.lock_token = p_token for update;
    v_now := queen_durable.clock_ms(p_now);
    update queen_durable.mailbox_messages m
    set lock_token = null, locked_until = null, attempts = greatest(0, m.attempts - p_uncount),
        visible_at = case when m.routing_key is null then v_now + p_delay_ms else m.visible_at end
    where m.lock_token = p_token
      and (m.locked_until > v_now or exists (
        select from queen_durable.mailbox_keys k where k.lock_token = p_token and k.locked_until > v_now
    ));
    if not found then
        return false;
    end if;
    update queen_durable.mailbox_keys k
    set lock_token = null, locked_until = null, held_until = v_now + p_delay_ms,
        ready_at = greatest(v_now + p_delay_ms, (
            select min(m.visible_at) from queen_durable.mailbox_messages m
            where m.queue = k.queue and m.routing_key = k.routing_key
        ))
    where k.lock_token = p_token;
    return true;
end $$;
