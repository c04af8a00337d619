-- Promises: sends messages to instances, visible at p_visible_at (never before now) plus a delay. A dedup id is accepted once per
--   instance: a repeat is answered false and stores nothing. Never creates an instance.
-- Locks: the rows of the keys, in key order.
create or replace function queen_durable.enqueue_messages(
    p_instances text[], p_kinds text[], p_bodies bytea[], p_visible_at bigint[], p_delays bigint[], p_dedup_ids text[],
    p_now bigint, p_channel text, p_notice text
) returns table (accepted boolean, visible_at bigint)
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_now     bigint := queen_durable.clock_ms(p_now);
    v_visible bigint[];
    v_fresh   boolean[];
begin
    select array_agg(greatest(coalesce(m.visible_at, 0), v_now) + m.delay order by m.position)
    into v_visible
    from unnest(p_visible_at, p_delays) with ordinality as m (visible_at, delay, position);

    with fresh as (
        insert into queen_durable.mailbox_dedup (instance, dedup_id)
        select distinct m.instance, m.dedup_id
        from unnest(p_instances, p_dedup_ids) as m (instance, dedup_id)
        where m.dedup_id is not null
        order by 1, 2
        on conflict do nothing
        returning instance, dedup_id
    )
    select array_agg(
        m.dedup_id is null
        or (fresh.dedup_id is not null and m.position = (
            select min(twin.position)
            from unnest(p_instances, p_dedup_ids) with ordinality as twin (instance, dedup_id, position)
            where twin.instance = m.instance and twin.dedup_id = m.dedup_id
        ))
        order by m.position)
    into v_fresh
    from unnest(p_instances, p_dedup_ids) with ordinality as m (instance, dedup_id, position)
    left join fresh on fresh.instance = m.instance and fresh.dedup_id = m.dedup_id;

    perform queen_durable.send_messages(
        'orchestrator',
        array_agg(m.instance order by m.position), array_agg(m.kind order by m.position),
        array_agg(m.body order by m.position), array_agg(m.visible_at order by m.position))
    from unnest(p_instances, p_kinds, p_bodies, v_visible) with ordinality
        as m (instance, kind, body, visible_at, position)
    where v_fresh[m.position]
    having count(*) > 0;

    if p_notice is not null then
        perform pg_notify(p_channel, p_notice);
    end if;
    return query select m.accepted, m.visible_at from unnest(v_fresh, v_visible) as m (accepted, visible_at);
end $$;
