-- Promises: extends live locks and notes that their sessions are active; returns the tokens that are lost (cancelled, expired, gone).
-- Locks: the rows of the items and their sessions.
create or replace function queen_durable.renew_work_items(
    p_tokens text[], p_extend_ms bigint, p_now bigint
) returns text[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_now      bigint := queen_durable.clock_ms(p_now);
    v_renewed  text[];
    v_sessions text[];
begin
    perform set_config('synchronous_commit', 'off', true);
    with renewed as (
        update queen_durable.work_items w
        set ready_at = v_now + p_extend_ms
        where w.lock_token = any (p_tokens) and w.ready_at > v_now
        returning w.lock_token, w.session_id
    )
    select array_agg(lock_token), array_agg(session_id) filter (where session_id is not null)
    into v_renewed, v_sessions
    from renewed;
    update queen_durable.sessions s set last_activity_at = v_now where s.session_id = any (v_sessions);
    return array(select unnest(p_tokens) except select unnest(v_renewed));
end $$;
