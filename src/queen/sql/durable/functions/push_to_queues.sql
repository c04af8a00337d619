-- Promises: pushes messages to Queen queues in the caller's transaction, in the order given; those of a sender that is not
--   p_live are left out.
-- Locks: as queen.push.
create or replace function queen_durable.push_to_queues(p_live boolean[], p_pushes queen_durable.push_row[]) returns void
language plpgsql volatile as $$
declare
    v_push record;
begin
    for v_push in
        select * from unnest(p_pushes) with ordinality
            as q (sender, queue, partition, payload, transaction_id, trace_id, deliver_at, parent_id, position)
        where p_live[q.sender]
        order by q.queue, q.partition, q.position
    loop
        perform queen.push(
            v_push.queue, v_push.partition, v_push.payload::jsonb, v_push.transaction_id, v_push.trace_id::uuid,
            to_timestamp(v_push.deliver_at / 1000.0), v_push.parent_id::uuid);
    end loop;
end $$;
