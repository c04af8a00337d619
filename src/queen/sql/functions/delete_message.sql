-- Promises: removes one message by hand, with its dead letters, and leaves a skip so that depth stays exact and cursors pass it. Returns
--   whether there was one. A batch that has other messages left can still be acknowledged; one of which nothing is left ends.
-- Locks: the partition row, then consumer rows under a lease on it (R3).
create or replace function queen.delete_message(p_partition bigint, p_transaction_id text) returns boolean
language plpgsql volatile as $$
declare
    v_seq   bigint;
    v_first bigint;
begin
    select first_seq into v_first from queen.partitions where id = p_partition for no key update;
    v_seq := queen.find_message(p_partition, p_transaction_id);
    if v_first is null or v_seq is null then
        return false;
    end if;
    delete from queen.messages where partition_id = p_partition and seq = v_seq;
    delete from queen.dead_letter_queue where partition_id = p_partition and seq = v_seq;
    insert into queen.skips (partition_id, consumer_group, seq) values (p_partition, '*', v_seq) on conflict do nothing;
    update queen.partitions set has_skips = true where id = p_partition;
    perform queen.end_emptied(p_partition, null, v_seq);
    return true;
end $$;
