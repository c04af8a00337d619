-- Promises: deletes items whose lock is live and sends their completions (sender n: the n-th token), each or not at all. Answers
--   per token whether it was held. p_relaxed: a power failure may undo it (the activity then runs again), so the commit does
--   not wait for the disk.
-- Locks: the keys of the receivers in key order, then the items: the order in which a turn cancels them.
create or replace function queen_durable.ack_work_items(
    p_tokens text[], p_completions queen_durable.message_row[], p_pushes queen_durable.push_row[],
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
    perform queen_durable.lock_keys(array(select m.key from unnest(p_completions) as m));
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

    perform queen_durable.send_messages('orchestrator', array(
        select (m.sender, m.key, m.kind, m.name, m.handler, m.body, greatest(m.visible_at, v_now))::queen_durable.message_row
        from unnest(p_completions) with ordinality
            as m (sender, key, kind, name, handler, body, visible_at, position)
        where v_held[m.sender]
        order by m.position
    ));
    if v_sessions is not null then
        update queen_durable.sessions s set last_activity_at = v_now where s.session_id = any (v_sessions);
    end if;
    if cardinality(p_pushes) > 0 then
        perform queen_durable.push_to_queues(v_held, p_pushes);
    end if;
    if p_notice is not null then
        perform pg_notify(p_channel, p_notice);
    end if;
    return query select item.held from unnest(v_held) as item (held);
end $$;
