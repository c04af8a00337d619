-- Promises: deletes items whose lock is live and sends their completions (a null key: none), each or not at all. Answers per token
--   whether it was held. p_relaxed: a power failure may undo it (the activity then runs again), so the commit does not wait
--   for the disk.
-- Locks: the keys of the receivers in key order, then the items: the order in which a turn cancels them.
create or replace function queen_durable.ack_work_items(
    p_tokens text[], m_key text[], m_kind text[], m_body bytea[], m_visible_at bigint[],
    q_item integer[], q_queue text[], q_partition text[], q_payload text[], q_transaction text[], q_trace text[],
    q_deliver_at bigint[], q_parent text[],
    p_now bigint, p_channel text, p_notice text, p_relaxed boolean
) returns table (held boolean)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_now      bigint;
    v_held     boolean[];
    v_sessions text[];
begin
    if p_relaxed then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    perform queen_durable.lock_keys(m_key);
    v_now := queen_durable.clock_ms(p_now);
    with finished as (
        delete from queen_durable.work_items w
        where w.lock_token = any (p_tokens) and w.ready_at > v_now
        returning w.lock_token, w.session_id
    )
    select array_agg(finished.lock_token is not null order by item.n),
           array_agg(finished.session_id) filter (where finished.session_id is not null)
    into v_held, v_sessions
    from unnest(p_tokens) with ordinality as item (token, n)
    left join finished on finished.lock_token = item.token;

    perform queen_durable.send_messages(
        'orchestrator',
        array_agg(m.key order by m.position), array_agg(m.kind order by m.position),
        array_agg(m.body order by m.position), array_agg(greatest(m.visible_at, v_now) order by m.position))
    from unnest(m_key, m_kind, m_body, m_visible_at) with ordinality as m (key, kind, body, visible_at, position)
    where v_held[m.position] and m.key is not null
    having count(*) > 0;
    if v_sessions is not null then
        update queen_durable.sessions s set last_activity_at = v_now where s.session_id = any (v_sessions);
    end if;
    if cardinality(q_item) > 0 then
        perform queen_durable.push_to_queues(
            array(select v_held[n] from unnest(q_item) with ordinality as q (n, position) order by q.position),
            q_queue, q_partition, q_payload, q_transaction, q_trace, q_deliver_at, q_parent);
    end if;
    if p_notice is not null then
        perform pg_notify(p_channel, p_notice);
    end if;
    return query select item.held from unnest(v_held) as item (held);
end $$;
