-- Promises: up to p_wanted.most locked instances with their messages, the history of the current execution and the key-value
--   snapshot, all under the lock just taken. The history is left out, and only its length told, when p_wanted.owner committed the
--   last turn and may have it in memory, or when it is long: such an owner reads what it lacks. After the instances one row without
--   instance: when the next wanted key falls due (next_due), and whether another session was in the way (again), both as of
--   server_now. p_relaxed: a power failure may undo the locks, so the commit need not wait for the disk.
-- Locks: the rows of the keys it takes; it never waits for one.
create or replace function queen_durable.fetch_orchestrations(
    p_wanted queen_durable.wanted_instances, p_now bigint, p_relaxed boolean
) returns table (
    instance text, token text, attempts integer[], name text, version text, execution_id integer, status text,
    parent_instance text, history text[], last_event_id integer, identity bigint, owned boolean, message_ids bigint[], bodies bytea[],
    kv_keys text[], kv_values text[], kv_times bigint[], server_now bigint, next_due bigint, again boolean
)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    c_long   constant integer := 100;
    v_now    bigint := queen_durable.clock_ms(p_now);
    v_keys   text[];
    v_parked text[];
    v_items  text[] := array[]::text[];
begin
    if p_relaxed then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if p_wanted.handlers is null and p_wanted.unknown_ms is null then
        p_wanted.handlers := queen_durable.needed_handlers();
    end if;
    while cardinality(v_items) < p_wanted.most loop
        v_keys := queen_durable.lock_instances(p_wanted, p_wanted.most - cardinality(v_items), v_now);
        exit when cardinality(v_keys) = 0;
        v_parked := queen_durable.park_orphans(v_keys);
        v_items := v_items || array(select key from unnest(v_keys) as key where key <> all (v_parked));
        exit when cardinality(v_parked) = 0;
    end loop;

    return query
    select k.routing_key, k.lock_token, batch.attempts, i.name, i.version, i.current_execution_id, e.status,
           i.parent_instance,
           case when last.event_id is not null and (
               p_wanted.owner is null or (k.owner is distinct from p_wanted.owner and last.event_id <= c_long)
           ) then array(
               select h.data from queen_durable.history h
               where h.instance = i.instance and h.execution_id = i.current_execution_id
               order by h.event_id
           ) end,
           last.event_id, i.id, coalesce(k.owner = p_wanted.owner, false), batch.ids, batch.bodies, kv.keys, kv.vals, kv.times, null::bigint, null::bigint,
           null::boolean
    from unnest(v_items) as item (routing_key)
    cross join lateral (
        select k.routing_key, k.lock_token, k.owner from queen_durable.mailbox_keys k
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
    left join lateral (
        select h.event_id from queen_durable.history h
        where h.instance = i.instance and h.execution_id = i.current_execution_id
        order by h.event_id desc limit 1
    ) as last on not (e.status = 'ContinuedAsNew' and batch.continued)
    cross join lateral (
        select array_agg(s.key) as keys, array_agg(s.value) as vals, array_agg(s.updated_at) as times
        from queen_durable.kv_store s
        where s.instance = k.routing_key
    ) as kv;

    return query
    select null::text, null::text, null::integer[], null::text, null::text, null::integer, null::text, null::text,
           null::text[], null::integer, null::bigint, null::boolean, null::bigint[], null::bytea[], null::text[],
           null::text[], null::bigint[], v_now, due.ready_at, cardinality(v_items) < p_wanted.most and due.again
    from queen_durable.due_instances(p_wanted, v_now) as due;
end $$;
