-- Promises: applies the key-value changes of turns to their current executions: clear-all first, then single keys (null clears).
--   A turn that ends its execution folds the changes into the state the next one starts from.
-- Locks: the caller holds the keys of the turns.
create or replace function queen_durable.change_values(
    p_instances text[], p_statuses text[], p_kv_cleared boolean[],
    k_turn integer[], k_key text[], k_value text[], k_at bigint[], p_now bigint
) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
    v_ended text[];
begin
    if true = any (p_kv_cleared) then
        insert into queen_durable.kv_delta (instance, key, value, updated_at)
        select live.instance, live.key, null, p_now
        from unnest(p_instances, p_kv_cleared) as turn (instance, cleared)
        cross join lateral (
            select s.instance, s.key from queen_durable.kv_store s where s.instance = turn.instance
            union
            select d.instance, d.key from queen_durable.kv_delta d where d.instance = turn.instance
        ) as live
        where turn.cleared
        on conflict (instance, key) do update set value = null, updated_at = excluded.updated_at;
    end if;
    if cardinality(k_turn) > 0 then
        insert into queen_durable.kv_delta (instance, key, value, updated_at)
        select p_instances[c.turn], c.key, c.value, c.at
        from unnest(k_turn, k_key, k_value, k_at) as c (turn, key, value, at)
        where p_instances[c.turn] is not null
        on conflict (instance, key) do update set value = excluded.value, updated_at = excluded.updated_at;
    end if;

    v_ended := array(
        select turn.instance from unnest(p_instances, p_statuses) as turn (instance, status)
        where turn.instance is not null and turn.status <> 'Parked'
    );
    if cardinality(v_ended) = 0
       or not exists (select from queen_durable.kv_delta d where d.instance = any (v_ended)) then
        return;
    end if;
    insert into queen_durable.kv_store (instance, key, value, updated_at)
    select d.instance, d.key, d.value, d.updated_at
    from queen_durable.kv_delta d
    where d.instance = any (v_ended) and d.value is not null
    on conflict (instance, key) do update set value = excluded.value, updated_at = excluded.updated_at;
    delete from queen_durable.kv_store s
    using queen_durable.kv_delta d
    where d.instance = any (v_ended) and d.value is null and s.instance = d.instance and s.key = d.key;
    delete from queen_durable.kv_delta d where d.instance = any (v_ended);
end $$;
