-- Promises: stores messages in the queues they name, in order, each hidden for its delay.
-- Locks: the rows of their keys, queue by queue, in key order.
create or replace function queen_durable.mailbox_enqueue(
    p_queues text[], p_keys text[], p_bodies bytea[], p_delays bigint[], p_now bigint
) returns void
language plpgsql volatile as $$
declare
    v_now bigint := queen_durable.clock_ms(p_now);
begin
    perform queen_durable.send_messages(sent.queue, sent.messages)
    from (
        select m.queue, array_agg(
                   (null, m.key, null, null, null, m.body, v_now + m.delay)::queen_durable.message_row order by m.position
               ) as messages
        from unnest(p_queues, p_keys, p_bodies, p_delays) with ordinality as m (queue, key, body, delay, position)
        group by m.queue
        order by m.queue
    ) as sent;
end $$;
