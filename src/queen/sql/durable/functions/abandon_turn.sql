-- Promises: gives an instance back, its messages in order, hidden for p_delay_ms together with what arrives meanwhile; it
--   queues up behind the others. p_uncount lowers the attempts, not below 0. No row when the token does not hold a live lock.
-- Locks: the row of the key.
create or replace function queen_durable.abandon_turn(
    p_token text, p_delay_ms bigint, p_uncount integer, p_now bigint
) returns table (instance text, ready_at bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_now bigint;
    v_key text;
begin
    perform set_config('synchronous_commit', 'off', true);
    select k.routing_key into v_key
    from queen_durable.mailbox_keys k
    where k.lock_token = p_token and k.queue = 'orchestrator'
    for update;
    v_now := queen_durable.clock_ms(p_now);
    if not exists (
        select from queen_durable.mailbox_keys k
        where k.lock_token = p_token and k.queue = 'orchestrator' and k.locked_until > v_now
    ) then
        return;
    end if;
    update queen_durable.mailbox_messages m
    set lock_token = null, attempts = greatest(0, m.attempts - p_uncount)
    where m.lock_token = p_token;
    return query
    update queen_durable.mailbox_keys k
    set lock_token = null, locked_until = null, owner = null, held_until = v_now + p_delay_ms,
        ready_at = greatest(v_now + p_delay_ms, (
            select min(m.visible_at) from queen_durable.mailbox_messages m
            where m.queue = 'orchestrator' and m.routing_key = v_key
        ))
    where k.queue = 'orchestrator' and k.routing_key = v_key
    returning k.routing_key, k.ready_at;
end $$;
