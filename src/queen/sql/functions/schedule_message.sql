-- Promises: keeps a message until deliver_at; returns its id, or the id of the one already waiting with the same transaction id.
-- Locks: nothing (unique index).
create or replace function queen.schedule_message(
    p_queue_id bigint, p_partition text, p_deliver_at timestamptz, p_id uuid, p_transaction_id text, p_trace_id uuid, p_parent_id uuid,
    p_payload jsonb, p_encrypted boolean, p_producer_sub text, p_now timestamptz
) returns uuid
language plpgsql volatile as $$
declare
    v_id uuid;
begin
    insert into queen.scheduled_messages (id, queue_id, partition_name, deliver_at, transaction_id, trace_id, parent_id, payload,
                                          is_encrypted, producer_sub, created_at)
    values (p_id, p_queue_id, p_partition, p_deliver_at, p_transaction_id, p_trace_id, p_parent_id, coalesce(p_payload, 'null'),
            p_encrypted, p_producer_sub, p_now)
        on conflict do nothing
    returning id into v_id;
    if v_id is null then
        select id into v_id from queen.scheduled_messages
         where id = p_id
            or (queue_id = p_queue_id and partition_name = p_partition and transaction_id = p_transaction_id)
         limit 1;
    end if;
    return v_id;
end $$;
