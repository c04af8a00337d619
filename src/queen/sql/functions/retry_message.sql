-- Promises: pushes one message again, to its own partition, as a new message (new id and transaction id, parent_id = the original).
--   Returns the new message's id and seq, or no row when there is no such message. Raises QUEUE_FULL.
-- Locks: as queen.push_messages.
create or replace function queen.retry_message(p_partition bigint, p_transaction_id text)
returns table (message_id uuid, seq bigint, queue_id bigint, queue_name text, woken boolean)
language plpgsql volatile as $$
declare
    v_new uuid := queen.uuid7();
    v_row record;
    m     record;
begin
    select x.*, p.name as partition_name, q.name as queue_name into m
      from queen.messages x join queen.partitions p on p.id = x.partition_id join queen.queues q on q.id = p.queue_id
     where x.partition_id = p_partition and x.seq = queen.find_message(p_partition, p_transaction_id);
    if not found then
        return;
    end if;
    select * into v_row from queen.push_messages(
        array[m.queue_name], array[m.partition_name], array[1], array[0], array[v_new], array[m.payload], null, array[m.trace_id],
        array[m.id], null, array[m.producer_sub], array[m.is_encrypted]);
    if v_row.status = 'full' then
        perform queen.raise_full(m.queue_name, v_row.depth, v_row.queue_limit);
    end if;
    return query select v_new, v_row.seq, v_row.queue_id, m.queue_name, v_row.woken;
end $$;
