-- Promises: pushes messages to Queen queues in the caller's transaction, in the order given; those not p_live are left out.
-- Locks: as queen.push.
create or replace function queen_durable.push_to_queues(
    p_live boolean[], q_queue text[], q_partition text[], q_payload text[], q_transaction text[], q_trace text[],
    q_deliver_at bigint[], q_parent text[]
) returns void
language plpgsql volatile as $$
declare
    v_push record;
begin
    for v_push in
        select * from unnest(p_live, q_queue, q_partition, q_payload, q_transaction, q_trace, q_deliver_at, q_parent)
            with ordinality
            as q (live, queue, partition, payload, transaction_id, trace_id, deliver_at, parent_id, position)
        where q.live
        order by q.queue, q.partition, q.position
    loop
        perform queen.push(
            v_push.queue, v_push.partition, v_push.payload::jsonb, v_push.transaction_id, v_push.trace_id::uuid,
            to_timestamp(v_push.deliver_at / 1000.0), v_push.parent_id::uuid);
    end loop;
end $$;
