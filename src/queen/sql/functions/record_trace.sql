-- Promises: notes an event in the life of a message, under any number of names; returns its number, or null when there is no such message.
-- Locks: nothing (inserts).
create or replace function queen.record_trace(
    p_partition bigint, p_transaction_id text, p_group text, p_event text, p_data jsonb, p_names text[]) returns bigint
language plpgsql volatile as $$
declare
    v_id      bigint;
    v_message uuid;
begin
    select m.id into v_message from queen.messages m
     where m.partition_id = p_partition and m.seq = queen.find_message(p_partition, p_transaction_id);
    if not found then
        return null;
    end if;
    insert into queen.traces (partition_id, transaction_id, message_id, consumer_group, event_type, data, created_at)
    values (p_partition, p_transaction_id, v_message, p_group, p_event, p_data, queen.clock())
    returning id into v_id;
    insert into queen.trace_names (trace_name, trace_id) select distinct n, v_id from unnest(p_names) n;
    return v_id;
end $$;
