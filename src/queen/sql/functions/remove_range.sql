-- Promises: removes the messages of a partition up to p_up_to and moves first_seq, at most p_limit of them; writes retention history.
--   Returns how many went.
-- Locks: nothing more than the caller holds (the partition row).
create or replace function queen.remove_range(
    p_partition bigint, p_up_to bigint, p_limit integer, p_type text, p_now timestamptz) returns bigint
language plpgsql volatile as $$
declare
    p       queen.partitions;
    v_to    bigint;
    v_count bigint;
begin
    select * into p from queen.partitions where id = p_partition;
    v_to := least(p_up_to, p.first_seq + p_limit - 1, p.next_seq - 1);
    if v_to < p.first_seq then
        return 0;
    end if;
    perform queen.note_removal(p_partition, v_to);
    delete from queen.messages where partition_id = p_partition and seq between p.first_seq and v_to;
    get diagnostics v_count = row_count;
    if p.has_skips then
        delete from queen.skips where partition_id = p_partition and seq <= v_to;
    end if;
    update queen.partitions
       set first_seq = v_to + 1, has_skips = p.has_skips and exists (select from queen.skips where partition_id = p_partition)
     where id = p_partition;
    insert into queen.retention_history (queue_id, partition_id, retention_type, messages_removed, up_to_seq, executed_at)
    values (p.queue_id, p_partition, p_type, v_count, v_to, p_now);
    return v_count;
end $$;
