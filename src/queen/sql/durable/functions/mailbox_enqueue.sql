-- Promises: stores messages in the queues they name, in order, each hidden for its delay.
-- Locks: the rows of their keys, queue by queue, in key order.
create or replace function queen_durable.mailbox_enqueue(
    p_queues text[], p_keys text[], p_bodies bytea[], p_delays bigint[], p_now bigint
) returns void
language plpgsql volatile as $$
declare
    v_now bigint := queen_durable.clock_ms(p_now);
begin
    perform queen_durable.send_messages(sent.queue, sent.keys, sent.kinds, sent.bodies, sent.visible_at)
    from (
        select m.queue, array_agg(m.key order by m.position) as keys,
               array_agg(null::text) as kinds,
               array_agg(m.body order by m.position) as bodies,
               array_agg(v_now + m.delay order by m.position) as visible_at
        from unnest(p_queues, p_keys, p_bodies, p_delays) with ordinality as m (queue, key, body, delay, position)
        group by m.queue
        order by m.queue
    ) as sent;
end $$;
