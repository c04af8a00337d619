-- Promises: commits turns, each whole or not at all. A turn whose token does not hold a live lock is answered 'lock_lost'
--   and changes nothing. A duplicate event (23505) or a refused push undoes the call: the caller repeats the turns one by
--   one. Element n of the turn arrays is turn n; every other group of arrays names its turn in its first array.
--   Per turn: delete exactly the messages handed out under the token, keep the dead letters aside, create or update
--   instance and execution, append events, update read models, queue activities, cancel activities, send messages, release.
-- Locks: the keys of the turns, of every receiver, and of p_receivers (whom the transaction will write to later), in key order;
--   then rows of the turns' own instances.
create or replace function queen_durable.ack_turns(
    p_tokens text[], p_executions integer[], p_names text[], p_versions text[], p_parents text[], p_traces text[],
    p_statuses text[], p_outputs text[], p_pinned bigint[], p_told_status boolean[], p_custom_status text[],
    p_kv_cleared boolean[],
    e_turn integer[], e_id integer[], e_kind text[], e_data text[],
    k_turn integer[], k_key text[], k_value text[], k_at bigint[],
    t_turn integer[], t_instance text[], t_execution integer[], t_activity integer[], t_session text[], t_tag text[],
    t_priority integer[], t_body text[],
    c_turn integer[], c_instance text[], c_execution integer[], c_activity integer[],
    m_turn integer[], m_key text[], m_kind text[], m_body bytea[], m_visible_at bigint[],
    d_turn integer[], d_id bigint[], d_error text[],
    q_turn integer[], q_queue text[], q_partition text[], q_payload text[], q_transaction text[], q_trace text[],
    q_deliver_at bigint[], q_parent text[],
    p_receivers text[], p_now bigint, p_channel text, p_notice text
) returns table (instance text, ready_at bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_now       bigint;
    v_instances text[];
    v_expires   bigint;
    v_ready     bigint[];
begin
    perform queen_durable.lock_keys(array(
        select k.routing_key from queen_durable.mailbox_keys k where k.lock_token = any (p_tokens)
    ) || m_key || p_receivers);
    v_now := queen_durable.clock_ms(p_now);
    select array_agg(k.routing_key order by turn.n), min(k.locked_until)
    into v_instances, v_expires
    from unnest(p_tokens) with ordinality as turn (token, n)
    left join lateral (
        select k.queue, k.routing_key, k.locked_until from queen_durable.mailbox_keys k
        where k.lock_token = turn.token and k.locked_until > v_now
        offset 0
    ) as k on k.queue = 'orchestrator';

    perform queen_durable.bury_messages(p_tokens, v_instances, d_turn, d_id, d_error, v_now);
    delete from queen_durable.mailbox_messages m
    where m.lock_token = any (array(
        select turn.token from unnest(p_tokens, v_instances) as turn (token, instance)
        where turn.instance is not null
    ));

    perform queen_durable.describe_turns(
        v_instances, p_executions, p_names, p_versions, p_parents, p_traces, p_statuses, p_outputs, p_pinned,
        p_told_status, p_custom_status, v_now);
    insert into queen_durable.history (instance, execution_id, event_id, kind, data)
    select v_instances[e.turn], p_executions[e.turn], e.id, e.kind, e.data
    from unnest(e_turn, e_id, e_kind, e_data) as e (turn, id, kind, data)
    where v_instances[e.turn] is not null;
    perform queen_durable.change_values(
        v_instances, p_statuses, p_kv_cleared, k_turn, k_key, k_value, k_at, v_now);

    if cardinality(t_turn) > 0 then
        insert into queen_durable.work_items
            (instance, execution_id, activity_id, session_id, tag, priority, body, ready_at)
        select t.instance, t.execution_id, t.activity_id, t.session_id, t.tag, t.priority, t.body, v_now
        from unnest(t_turn, t_instance, t_execution, t_activity, t_session, t_tag, t_priority, t_body) with ordinality
            as t (turn, instance, execution_id, activity_id, session_id, tag, priority, body, position)
        where v_instances[t.turn] is not null
        order by t.position;
    end if;
    if cardinality(c_turn) > 0 then
        delete from queen_durable.work_items gone
        where gone.id = any (array(
            select found.id
            from unnest(c_turn, c_instance, c_execution, c_activity)
                as c (turn, instance, execution_id, activity_id)
            cross join lateral (
                select w.id from queen_durable.work_items w
                where w.instance = c.instance and w.execution_id = c.execution_id
                  and w.activity_id = c.activity_id
                offset 0
            ) as found
            where v_instances[c.turn] is not null
        ));
    end if;
    if cardinality(m_turn) > 0 then
        perform queen_durable.send_messages(
            'orchestrator',
            array_agg(m.key order by m.position), array_agg(m.kind order by m.position),
            array_agg(m.body order by m.position), array_agg(greatest(m.visible_at, v_now) order by m.position))
        from unnest(m_turn, m_key, m_kind, m_body, m_visible_at) with ordinality
            as m (turn, key, kind, body, visible_at, position)
        where v_instances[m.turn] is not null
        having count(*) > 0;
    end if;

    with released as (
        update queen_durable.mailbox_keys k
        set lock_token = null, locked_until = null, ready_at = (
            select min(m.visible_at) from queen_durable.mailbox_messages m
            where m.queue = 'orchestrator' and m.routing_key = k.routing_key
        )
        where k.queue = 'orchestrator' and k.routing_key = any (v_instances)
        returning k.routing_key, k.ready_at
    )
    select array_agg(released.ready_at order by turn.n)
    into v_ready
    from unnest(v_instances) with ordinality as turn (instance, n)
    left join released on released.routing_key = turn.instance;

    if cardinality(q_turn) > 0 then
        perform queen_durable.push_to_queues(
            array(select v_instances[n] is not null from unnest(q_turn) with ordinality as q (n, position) order by q.position),
            q_queue, q_partition, q_payload, q_transaction, q_trace, q_deliver_at, q_parent);
    end if;
    if v_expires <= queen_durable.clock_ms(p_now) then
        raise exception 'the lock expired during the ack' using errcode = 'QD001';
    end if;
    if p_notice is not null then
        perform pg_notify(p_channel, p_notice);
    end if;
    return query select turn.instance, turn.ready_at from unnest(v_instances, v_ready) as turn (instance, ready_at);
end $$;
