-- Promises: commits turns, each whole or not at all. A turn whose token does not hold a live lock is answered without instance
--   and changes nothing. A duplicate event (23505) or a refused push undoes the call: the caller repeats the turns one by
--   one.
--   Per turn: delete exactly the messages handed out under the token, keep the dead letters aside, create or update
--   instance and execution, append events, update read models, queue activities, cancel activities, withdraw timers, send
--   messages, release. The timers of an execution that ends go with it.
-- Locks: the keys of the turns, of every receiver, and of p_receivers (whom the transaction will write to later), in key order;
--   then rows of the turns' own instances.
create or replace function queen_durable.ack_turns(
    p_turns queen_durable.turn_row[], p_events queen_durable.event_row[], p_values queen_durable.value_row[],
    p_tasks queen_durable.task_row[], p_cancelled queen_durable.activity_row[],
    p_messages queen_durable.message_row[], p_withdrawn queen_durable.withdrawal_row[],
    p_letters queen_durable.letter_row[], p_pushes queen_durable.push_row[],
    p_receivers queen_durable.message_row[], p_now bigint, p_channel text, p_notice text
) returns table (instance text, ready_at bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_now       bigint;
    v_tokens    text[];
    v_instances text[];
    v_live      text[];
    v_ended     text[];
    v_expires   bigint;
    v_ready     bigint[];
begin
    v_tokens := array(select turn.token from unnest(p_turns) as turn);
    perform queen_durable.lock_keys(
        array(select k.routing_key from queen_durable.mailbox_keys k where k.lock_token = any (v_tokens))
        || array(select m.key from unnest(p_messages) as m)
        || array(select m.key from unnest(p_receivers) as m));
    v_now := queen_durable.clock_ms(p_now);
    select array_agg(k.routing_key order by turn.n), min(k.locked_until),
           coalesce(array_agg(turn.token) filter (where k.routing_key is not null), array[]::text[])
    into v_instances, v_expires, v_live
    from unnest(v_tokens) with ordinality as turn (token, n)
    left join lateral (
        select k.queue, k.routing_key, k.locked_until from queen_durable.mailbox_keys k
        where k.lock_token = turn.token and k.locked_until > v_now
        offset 0
    ) as k on k.queue = 'orchestrator';

    perform queen_durable.bury_messages(v_tokens, v_instances, p_letters, v_now);
    delete from queen_durable.mailbox_messages m where m.lock_token = any (v_live);

    perform queen_durable.describe_turns(v_instances, p_turns, v_now);
    insert into queen_durable.history (instance, execution_id, event_id, kind, data)
    select v_instances[e.turn], (p_turns[e.turn]).execution_id, e.id, e.kind, e.data
    from unnest(p_events) as e
    where v_instances[e.turn] is not null;
    perform queen_durable.change_values(v_instances, p_turns, p_values, v_now);

    if cardinality(p_tasks) > 0 then
        insert into queen_durable.work_items
            (instance, execution_id, activity_id, name, session_id, tag, priority, body, ready_at, limited)
        select t.instance, t.execution_id, t.activity_id, t.name, t.session_id, t.tag, t.priority, t.body, v_now,
               t.limited::jsonb
        from unnest(p_tasks) with ordinality
            as t (turn, instance, execution_id, activity_id, name, session_id, tag, priority, body, limited, position)
        where v_instances[t.turn] is not null
        order by t.position;
    end if;
    if cardinality(p_cancelled) > 0 then
        delete from queen_durable.work_items gone
        where gone.id = any (array(
            select found.id
            from unnest(p_cancelled) as c
            cross join lateral (
                select w.id from queen_durable.work_items w
                where w.instance = c.instance and w.execution_id = c.execution_id
                  and w.activity_id = c.activity_id
                offset 0
            ) as found
            where v_instances[c.turn] is not null
        ));
    end if;
    if cardinality(p_withdrawn) > 0 then
        delete from queen_durable.mailbox_messages gone
        where gone.id = any (array(
            select found.id
            from unnest(p_withdrawn) as w
            cross join lateral (
                select m.id from queen_durable.mailbox_messages m
                where m.queue = 'orchestrator' and m.routing_key = v_instances[w.turn] and m.name = w.name
                offset 0
            ) as found
        ));
    end if;
    v_ended := array(
        select turn.instance from queen_durable.described_turns(v_instances, p_turns) as turn where turn.status <> 'Parked'
    );
    if cardinality(v_ended) > 0 then
        delete from queen_durable.mailbox_messages m
        where m.queue = 'orchestrator' and m.routing_key = any (v_ended) and m.name is not null
          and m.kind = 'TimerFiredMessage';
        perform queen_durable.leave_places(v_ended);
    end if;
    perform queen_durable.send_messages('orchestrator', array(
        select (m.sender, m.key, m.kind, m.name, m.handler, m.body, greatest(m.visible_at, v_now))::queen_durable.message_row
        from unnest(p_messages) with ordinality
            as m (sender, key, kind, name, handler, body, visible_at, position)
        where v_instances[m.sender] is not null
        order by m.position
    ));

    with released as (
        update queen_durable.mailbox_keys k
        set lock_token = null, locked_until = null,
            owner = (select turn.owner from unnest(p_turns) as turn where turn.token = k.lock_token),
            ready_at = (
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

    if cardinality(v_ended) > 0 then
        perform queen_durable.forget_code(v_ended);
    end if;
    if cardinality(p_pushes) > 0 then
        perform queen_durable.push_to_queues(
            array(select instance is not null from unnest(v_instances) as instance), p_pushes);
    end if;
    if v_expires <= queen_durable.clock_ms(p_now) then
        raise exception 'the lock expired during the ack' using errcode = 'QD001';
    end if;
    if p_notice is not null then
        perform pg_notify(p_channel, p_notice);
    end if;
    return query select turn.instance, turn.ready_at from unnest(v_instances, v_ready) as turn (instance, ready_at);
end $$;
