-- Promises: stores messages of one queue in the order given and makes their keys ready, unless a key is locked (its
--   release will look at its messages). A null key stands alone.
-- Locks: the rows of the keys, in key order.
create or replace function queen_durable.send_messages(
    p_queue text, p_keys text[], p_kinds text[], p_bodies bytea[], p_visible_at bigint[]
) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
begin
    insert into queen_durable.mailbox_keys as k (queue, routing_key, ready_at)
    select p_queue, m.routing_key, min(m.visible_at)
    from unnest(p_keys, p_visible_at) as m (routing_key, visible_at)
    where m.routing_key is not null
    group by m.routing_key
    order by m.routing_key
    on conflict (queue, routing_key) do update set ready_at = excluded.ready_at
    where k.lock_token is null and (k.ready_at is null or k.ready_at > excluded.ready_at);

    insert into queen_durable.mailbox_messages (queue, routing_key, kind, body, order_at, visible_at)
    select p_queue, m.routing_key, m.kind, m.body, m.visible_at, m.visible_at
    from unnest(p_keys, p_kinds, p_bodies, p_visible_at) with ordinality
        as m (routing_key, kind, body, visible_at, position)
    order by m.position;
end $$;
