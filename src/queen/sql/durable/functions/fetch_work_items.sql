-- Promises: locks up to p_limit visible items, each under a fresh token, and counts the attempt: higher priority first, then
--   longest-waiting. Names or tags null take any; the empty tag is the untagged ones. Without owner only items without session; with it
--   also those of sessions it holds, or claims here: at most max_sessions in all. After the items one row without token: when the next item comes back
--   (next_due), and whether another session was in the way (again), as of server_now. p_relaxed: the commit need not wait for the disk.
-- Locks: the rows of items and sessions it takes; it waits only for a claim on the same session, in session order.
create or replace function queen_durable.fetch_work_items(
    p_wanted queen_durable.wanted_tasks, p_now bigint, p_relaxed boolean
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
    if p_wanted.names is null and p_wanted.unknown_ms is null then
        p_wanted.names := queen_durable.needed_activities();
    end if;
    v_ids := queen_durable.ready_work_items(p_wanted, v_now);
    if p_wanted.owner is not null and cardinality(v_ids) > 0 then
        v_ids := queen_durable.claim_sessions(
            v_ids, p_wanted.owner, p_wanted.session_ms, p_wanted.max_sessions, v_now);
    end if;
    if cardinality(v_ids) > 0 then
        return query
        with locked as (
            update queen_durable.work_items w
            set lock_token = gen_random_uuid()::text, ready_at = v_now + p_wanted.lock_ms, attempts = w.attempts + 1
            where w.id = any (v_ids)
            returning w.id, w.lock_token, w.attempts, w.instance, w.execution_id, w.activity_id, w.body, w.limited
        ), started as (
            update queen_durable.places p
            set started_at = v_now
            from locked l
            where l.limited is not null and p.started_at is null
              and p.instance = l.instance and p.execution_id = l.execution_id and p.activity_id = l.activity_id
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
           due.ready_at, v_taken < p_wanted.most and due.again
    from queen_durable.due_work_items(p_wanted, v_now) as due;
end $$;
