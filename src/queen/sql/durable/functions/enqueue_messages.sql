-- Promises: sends messages to instances, visible at p_visible_at (never before now) plus a delay. A dedup id is accepted once per
--   instance: a repeat is answered false and stores nothing. Never creates an instance.
-- Locks: the rows of the keys, in key order.
create or replace function queen_durable.enqueue_messages(
    p_messages queen_durable.message_row[], p_delays bigint[], p_dedup_ids text[], p_now bigint, p_channel text,
    p_notice text
) returns table (accepted boolean, visible_at bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_now     bigint := queen_durable.clock_ms(p_now);
    v_keys    text[] := array(select m.key from unnest(p_messages) as m);
    v_visible bigint[];
    v_fresh   boolean[];
begin
    v_visible := array(
        select greatest(coalesce((p_messages[n]).visible_at, 0), v_now) + p_delays[n]
        from generate_subscripts(p_messages, 1) as n
    );

    with fresh as (
        insert into queen_durable.mailbox_dedup (instance, dedup_id)
        select distinct m.instance, m.dedup_id
        from unnest(v_keys, p_dedup_ids) as m (instance, dedup_id)
        where m.dedup_id is not null
        order by 1, 2
        on conflict do nothing
        returning instance, dedup_id
    )
    select array_agg(
        m.dedup_id is null
        or (fresh.dedup_id is not null and m.position = (
            select min(twin.position)
            from unnest(v_keys, p_dedup_ids) with ordinality as twin (instance, dedup_id, position)
            where twin.instance = m.instance and twin.dedup_id = m.dedup_id
        ))
        order by m.position)
    into v_fresh
    from unnest(v_keys, p_dedup_ids) with ordinality as m (instance, dedup_id, position)
    left join fresh on fresh.instance = m.instance and fresh.dedup_id = m.dedup_id;

    perform queen_durable.send_messages('orchestrator', array(
        select (m.sender, m.key, m.kind, m.name, m.handler, m.body, v_visible[m.position])::queen_durable.message_row
        from unnest(p_messages) with ordinality
            as m (sender, key, kind, name, handler, body, visible_at, position)
        where v_fresh[m.position]
        order by m.position
    ));

    if p_notice is not null then
        perform pg_notify(p_channel, p_notice);
    end if;
    return query select m.accepted, m.visible_at from unnest(v_fresh, v_visible) as m (accepted, visible_at);
end $$;
