-- Promises: stores messages of one queue in the order given and makes their keys ready, unless a key is locked (its
--   release will look at its messages) or held back after an abandon. A null key stands alone. A start says what code a new
--   key needs, the beginning of a next execution what code it needs from now on.
-- Locks: the rows of the keys, in key order.
create or replace function queen_durable.send_messages(p_queue text, p_messages queen_durable.message_row[]) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
begin
    if cardinality(p_messages) = 0 then
        return;
    end if;
    insert into queen_durable.mailbox_keys as k (queue, routing_key, ready_at, handler)
    select p_queue, m.key, min(m.visible_at), coalesce((array_agg(m.handler order by m.position)
               filter (where m.handler is not null))[1], '')
    from unnest(p_messages) with ordinality as m (sender, key, kind, name, handler, body, visible_at, position)
    where m.key is not null
    group by m.key
    order by m.key
    on conflict (queue, routing_key) do update
    set ready_at = case
            when k.lock_token is not null then k.ready_at
            else least(k.ready_at, greatest(excluded.ready_at, k.held_until))
        end,
        handler = case when k.handler = '' then excluded.handler else k.handler end
    where (k.lock_token is null and (k.ready_at is null or k.ready_at > greatest(excluded.ready_at, k.held_until)))
       or (k.handler = '' and excluded.handler <> '');

    if exists (select from unnest(p_messages) as m where m.kind = 'ContinueAsNewMessage') then
        update queen_durable.mailbox_keys k
        set handler = (
            select m.handler from unnest(p_messages) as m
            where m.kind = 'ContinueAsNewMessage' and m.key = k.routing_key limit 1
        )
        where k.queue = p_queue and k.routing_key = any (array(
            select m.key from unnest(p_messages) as m where m.kind = 'ContinueAsNewMessage'
        ));
    end if;

    insert into queen_durable.mailbox_messages (queue, routing_key, kind, name, body, order_at, visible_at)
    select p_queue, m.key, m.kind, m.name, m.body, m.visible_at, m.visible_at
    from unnest(p_messages) with ordinality as m (sender, key, kind, name, handler, body, visible_at, position)
    order by m.position;
end $$;
