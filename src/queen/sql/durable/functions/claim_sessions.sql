-- Promises: claims the sessions of these items for p_owner: those it holds already, and free ones while it holds fewer than p_max_sessions
--   in all. Returns the items it may have, in order; of two racing claimants exactly one gets a session.
-- Locks: the session rows, in order.
create or replace function queen_durable.claim_sessions(
    p_ids bigint[], p_owner text, p_session_ms bigint, p_max_sessions integer, p_now bigint
) returns bigint[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
    v_held   text[];
    v_wanted text[];
    v_mine   text[];
begin
    select array_agg(s.session_id) into v_held
    from queen_durable.sessions s
    where s.owner = p_owner and s.locked_until > p_now;
    select array_agg(w.session_id order by w.position) into v_wanted
    from (
        select w.session_id, min(array_position(p_ids, w.id)) as position
        from queen_durable.work_items w
        where w.id = any (p_ids)
          and w.session_id is not null and w.session_id <> all (coalesce(v_held, array[]::text[]))
        group by w.session_id
        order by 2
        limit case when p_max_sessions is null then null
                   else greatest(0, p_max_sessions - coalesce(cardinality(v_held), 0)) end
    ) as w;

    with claimed as (
        insert into queen_durable.sessions as s (session_id, owner, locked_until, last_activity_at)
        select session_id, p_owner, p_now + p_session_ms, p_now
        from (
            select unnest(v_wanted) as session_id
            union
            select w.session_id from queen_durable.work_items w
            where w.id = any (p_ids) and w.session_id = any (v_held)
        ) as sessions
        order by session_id
        on conflict (session_id) do update
        set owner = excluded.owner,
            locked_until = case when s.owner = excluded.owner then greatest(s.locked_until, excluded.locked_until)
                                else excluded.locked_until end,
            last_activity_at = excluded.last_activity_at
        where s.owner = excluded.owner or s.locked_until <= p_now
        returning s.session_id
    )
    select array_agg(session_id) into v_mine from claimed;
    return array(
        select w.id
        from queen_durable.work_items w
        where w.id = any (p_ids) and (w.session_id is null or w.session_id = any (v_mine))
        order by array_position(p_ids, w.id)
    );
end $$;
