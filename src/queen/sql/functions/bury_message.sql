-- Promises: moves one message to the dead letters of a group: a copy is kept there, and a skip lets the group's cursor pass it if it has
--   not yet. Other groups still get it. Returns the dead letter's id, or null when there is no such message; one that is a dead letter
--   of the group already stays as it is.
-- Locks: the partition row, then the group's row if it has a lease on the message (R3).
create or replace function queen.bury_message(p_partition bigint, p_transaction_id text, p_group text, p_error text) returns bigint
language plpgsql volatile as $$
declare
    v_queue bigint;
    v_seq   bigint;
    v_id    bigint;
begin
    select queue_id into v_queue from queen.partitions where id = p_partition for no key update;
    v_seq := queen.find_message(p_partition, p_transaction_id);
    if v_queue is null or v_seq is null then
        return null;
    end if;
    select max(d.id) into v_id from queen.dead_letter_queue d
     where d.partition_id = p_partition and d.seq = v_seq and d.consumer_group = p_group and d.redriven_at is null;
    if v_id is not null then
        return v_id;
    end if;
    perform queen.dead_letter(v_queue, p_partition, p_group, array[v_seq], null, p_error, 0, false, queen.clock());
    select max(d.id) into v_id from queen.dead_letter_queue d
     where d.partition_id = p_partition and d.seq = v_seq and d.consumer_group = p_group;
    if not exists (select from queen.partition_consumers c
                    where c.partition_id = p_partition and c.consumer_group = p_group and c.last_consumed_seq >= v_seq) then
        insert into queen.skips (partition_id, consumer_group, seq) values (p_partition, p_group, v_seq) on conflict do nothing;
        update queen.partitions set has_skips = true where id = p_partition;
        perform queen.end_emptied(p_partition, p_group, v_seq);
    end if;
    return v_id;
end $$;
