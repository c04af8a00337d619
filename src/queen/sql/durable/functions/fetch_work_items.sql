-- Promises: locks up to p_limit visible items, each under a fresh token, and counts the attempt: higher priority first, then
--   longest-waiting. p_tags null takes any tag; the empty tag is the untagged ones. Without p_owner only items without session; with it
--   also those of sessions it holds, or claims here: at most p_max_sessions in all. After the items one row without token: when the next item comes back
--   (next_due), and whether another session was in the way (again), as of server_now. p_relaxed: the commit need not wait for the disk.
-- Locks: the rows of items and sessions it takes; it waits only for a claim on the same session, in session order.
create or replace function queen_durable.fetch_work_items(
    p_limit integer, p_lock_ms bigint, p_tags text[], p_owner text, p_session_ms bigint, p_max_sessions integer,
    p_now bigint, p_relaxed boolean
) returns table (
    token text, attempt integer, instance text, execution_id integer, activity_id integer, body text,
    server_now bigint, next_due bigint, again boolean
)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_now   bigint := queen_durable.clock_ms(p_now);
    v_ids   bigint[];
    v_taken integer := 0;
begin
    if p_relaxed then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    v_ids := queen_durable.ready_work_items(p_limit, p_tags, p_owner, v_now);
    if p_owner is not null and cardinality(v_ids) > 0 then
        v_ids := queen_durable.claim_sessions(v_ids, p_owner, p_session_ms, p_max_sessions, v_now);
    end if;
    if cardinality(v_ids) > 0 then
        return query
        with locked as (
            update queen_durable.work_items w
            set lock_token = gen_random_uuid()::text, ready_at = v_now + p_lock_ms, attempts = w.attempts + 1
            where w.id = any (v_ids)
            returning w.id, w.lock_token, w.attempts, w.instance, w.execution_id, w.activity_id, w.body
        )
        select l.lock_token, l.attempts, l.instance, l.execution_id, l.activity_id, l.body,
               null::bigint, null::bigint, null::boolean
        from unnest(v_ids) with ordinality as wanted (id, position)
        join locked l on l.id = wanted.id
        order by wanted.position;
        get diagnostics v_taken = row_count;
    end if;

    return query
    select null::text, null::integer, null::text, null::integer, null::integer, null::text, v_now,
           least(
               (select w.ready_at from queen_durable.work_items w
                where w.ready_at > v_now
                order by w.ready_at limit 1),
               (select min(s.locked_until) from queen_durable.sessions s
                where s.locked_until > v_now
                  and exists (select from queen_durable.work_items w where w.session_id = s.session_id))
           ),
           v_taken < p_limit and case when p_tags is null then coalesce((
               select true from queen_durable.work_items w
               where w.ready_at <= v_now and w.session_id is null
               order by w.priority desc, w.ready_at, w.id limit 1
           ), false) else exists (
               select from unnest(p_tags) as wanted (tag)
               cross join lateral (
                   select from queen_durable.work_items w
                   where w.tag = wanted.tag and w.ready_at <= v_now and w.session_id is null
                   order by w.priority desc, w.ready_at, w.id limit 1
               ) as waiting
           ) end;
end $$;
