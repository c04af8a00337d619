-- Promises: applies the key-value changes of turns to their current executions: clear-all first, then single keys (null clears).
--   A turn that ends its execution folds the changes into the state the next one starts from.
-- Locks: the caller holds the keys of the turns.
create or replace function queen_durable.change_values(
    p_instances text[], p_turns queen_durable.turn_row[], p_values queen_durable.value_row[], p_now bigint
) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
declare
    v_ended text[];
begin
    if exists (select from unnest(p_turns) as turn where turn.kv_cleared) then
        insert into queen_durable.kv_delta (instance, key, value, updated_at)
        select live.instance, live.key, null, p_now
        from queen_durable.described_turns(p_instances, p_turns) as turn
        cross join lateral (
            select s.instance, s.key from queen_durable.kv_store s where s.instance = turn.instance
            union
            select d.instance, d.key from queen_durable.kv_delta d where d.instance = turn.instance
        ) as live
        where turn.kv_cleared
        on conflict (instance, key) do update set value = null, updated_at = excluded.updated_at;
    end if;
    if cardinality(p_values) > 0 then
        insert into queen_durable.kv_delta (instance, key, value, updated_at)
        select p_instances[c.turn], c.key, c.value, c.updated_at
        from unnest(p_values) as c
        where p_instances[c.turn] is not null
        on conflict (instance, key) do update set value = excluded.value, updated_at = excluded.updated_at;
    end if;

    v_ended := array(
        select turn.instance from queen_durable.described_turns(p_instances, p_turns) as turn
        where turn.status <> 'Parked'
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
