-- Promises: up to p_limit locked instances with their messages, the history of the current execution and the key-value
--   snapshot, all under the lock just taken. After them one row without instance: when the next key falls due (next_due),
--   and whether another session was in the way (again), both as of server_now. p_relaxed: a power failure may undo
--   the locks, so the commit need not wait for the disk.
-- Locks: the rows of the keys it takes; it never waits for one.
create or replace function queen_durable.fetch_orchestrations(
    p_limit integer, p_lock_ms bigint, p_lows bigint[], p_highs bigint[], p_now bigint, p_relaxed boolean
) returns table (
    instance text, token text, attempts integer[], name text, version text, execution_id integer, status text,
    parent_instance text, history text[], message_ids bigint[], bodies bytea[],
    kv_keys text[], kv_values text[], kv_times bigint[], server_now bigint, next_due bigint, again boolean
)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    v_now    bigint := queen_durable.clock_ms(p_now);
    v_keys   text[];
    v_parked text[];
    v_items  text[] := array[]::text[];
begin
    if p_relaxed then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    while cardinality(v_items) < p_limit loop
        v_keys := queen_durable.lock_instances(
            p_limit - cardinality(v_items), v_now + p_lock_ms, p_lows, p_highs, v_now);
        exit when cardinality(v_keys) = 0;
        v_parked := queen_durable.park_orphans(v_keys);
        v_items := v_items || array(select key from unnest(v_keys) as key where key <> all (v_parked));
        exit when cardinality(v_parked) = 0;
    end loop;

    return query
    select k.routing_key, k.lock_token, batch.attempts, i.name, i.version, i.current_execution_id, e.status,
           i.parent_instance,
           case when i.instance is null or (e.status = 'ContinuedAsNew' and batch.continued) then null else array(
               select h.data from queen_durable.history h
               where h.instance = i.instance and h.execution_id = i.current_execution_id
               order by h.event_id
           ) end,
           batch.ids, batch.bodies, kv.keys, kv.vals, kv.times, null::bigint, null::bigint, null::boolean
    from unnest(v_items) as item (routing_key)
    cross join lateral (
        select k.routing_key, k.lock_token from queen_durable.mailbox_keys k
        where k.queue = 'orchestrator' and k.routing_key = item.routing_key
        offset 0
    ) as k
    cross join lateral (
        select array_agg(m.attempts order by m.order_at, m.id) as attempts,
               array_agg(m.id order by m.order_at, m.id) as ids,
               array_agg(m.body order by m.order_at, m.id) as bodies,
               bool_or(m.kind = 'ContinueAsNewMessage') as continued
        from queen_durable.mailbox_messages m
        where m.lock_token = k.lock_token
    ) as batch
    left join queen_durable.instances i on i.instance = k.routing_key
    left join queen_durable.executions e
        on e.instance = i.instance and e.execution_id = i.current_execution_id
    cross join lateral (
        select array_agg(s.key) as keys, array_agg(s.value) as vals, array_agg(s.updated_at) as times
        from queen_durable.kv_store s
        where s.instance = k.routing_key
    ) as kv;

    return query
    select null::text, null::text, null::integer[], null::text, null::text, null::integer, null::text, null::text,
           null::text[], null::bigint[], null::bytea[], null::text[], null::text[], null::bigint[], v_now,
           (select k.ready_at from queen_durable.mailbox_keys k
            where k.queue = 'orchestrator' and k.ready_at > v_now
            order by k.ready_at limit 1),
           cardinality(v_items) < p_limit and coalesce((
               select true from queen_durable.mailbox_keys k
               where k.queue = 'orchestrator' and k.ready_at <= v_now
                 and queen_durable.is_supported(k.routing_key, p_lows, p_highs)
               order by k.ready_at limit 1
           ), false);
end $$;
