-- Promises: deletes exactly the messages handed out under a live token, keeping the dead letters aside, and with that appends events and
--   sends messages to any queue; all or nothing. False, with nothing changed, when the token holds no live lock. A duplicate
--   event raises 23505.
-- Locks: the row of the key or message, then the keys of the receivers.
create or replace function queen_durable.mailbox_ack(
    p_token text, m_queues text[], m_keys text[], m_bodies bytea[], m_delays bigint[],
    e_instances text[], e_executions integer[], e_ids integer[], e_kinds text[], e_data text[],
    d_ids bigint[], d_errors text[], p_now bigint
) returns boolean
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_now bigint;
    v_key queen_durable.mailbox_keys;
begin
    perform from queen_durable.mailbox_keys k
    where k.lock_token = p_token
       or (k.queue, k.routing_key) in (select unnest(m_queues), unnest(m_keys))
    order by k.queue, k.routing_key
    for update;
    v_now := queen_durable.clock_ms(p_now);
    select * into v_key from queen_durable.mailbox_keys k where k.lock_token = p_token and k.locked_until > v_now;
    if v_key.lock_token is null then
        perform from queen_durable.mailbox_messages m
        where m.lock_token = p_token and m.locked_until > v_now
        for update;
        if not found then
            return false;
        end if;
    end if;
    insert into queen_durable.mailbox_dead_letters (id, queue, routing_key, body, attempts, error, dead_at)
    select m.id, m.queue, m.routing_key, m.body, m.attempts, d.error, v_now
    from unnest(d_ids, d_errors) as d (id, error)
    join queen_durable.mailbox_messages m on m.id = d.id
    where m.lock_token = p_token;
    delete from queen_durable.mailbox_messages m where m.lock_token = p_token;
    insert into queen_durable.history (instance, execution_id, event_id, kind, data)
    select * from unnest(e_instances, e_executions, e_ids, e_kinds, e_data);
    perform queen_durable.mailbox_enqueue(m_queues, m_keys, m_bodies, m_delays, v_now);
    update queen_durable.mailbox_keys k
    set lock_token = null, locked_until = null, ready_at = (
        select min(m.visible_at) from queen_durable.mailbox_messages m
        where m.queue = k.queue and m.routing_key = k.routing_key
    )
    where k.lock_token = p_token;
    delete from queen_durable.mailbox_keys k
    where k.queue = v_key.queue and k.routing_key = v_key.routing_key and k.ready_at is null and k.lock_token is null;
    return true;
end $$;
