-- Promises: the seq of a message by its transaction id (also one the server made up: the text of the message id), or null.
-- Locks: nothing.
create or replace function queen.find_message(p_partition bigint, p_transaction_id text) returns bigint
language plpgsql stable as $$
declare
    v_seq bigint;
    v_id  uuid;
begin
    select m.seq into v_seq from queen.messages m where m.partition_id = p_partition and m.transaction_id = p_transaction_id;
    if found or p_transaction_id !~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' then
        return v_seq;
    end if;
    v_id := p_transaction_id::uuid;
    select m.seq into v_seq from queen.messages m
     where m.partition_id = p_partition and m.id = v_id and m.transaction_id is null
       and m.seq > queen.seq_at(p_partition, queen.uuid7_time(v_id) - interval '5 minutes')
     order by m.seq limit 1;
    return v_seq;
end $$;
