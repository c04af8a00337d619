-- Promises: extends a live lock on a key or on a message without key. False when the token holds none.
-- Locks: the row of the key or message.
create or replace function queen_durable.mailbox_renew(p_token text, p_extend_ms bigint, p_now bigint) returns boolean
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_now bigint := queen_durable.clock_ms(p_now);
begin
    update queen_durable.mailbox_keys k
    set locked_until = v_now + p_extend_ms, ready_at = v_now + p_extend_ms
    where k.lock_token = p_token and k.locked_until > v_now;
    if not found then
        update queen_durable.mailbox_messages m
        set locked_until = v_now + p_extend_ms, visible_at = v_now + p_extend_ms
        where m.lock_token = p_token and m.locked_until > v_now;
    end if;
    return found;
end $$;
