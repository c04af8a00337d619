-- Promises: the highest seq in the partition whose message was created before the given time (p_inclusive: not after it);
--   first_seq - 1 when there is none. created_at never goes back within a partition, so this is a binary search: O(log n) look-ups
--   by primary key and no index on time.
-- Locks: nothing.
create or replace function queen.seq_at(p_partition bigint, p_time timestamptz, p_inclusive boolean default false) returns bigint
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    v_low  bigint;
    v_high bigint;
    v_mid  bigint;
    v_seq  bigint;
    v_time timestamptz;
begin
    select first_seq - 1, next_seq - 1 into v_low, v_high from queen.partitions where id = p_partition;
    if not found then
        return 0;
    end if;
    while v_low < v_high loop
        v_mid := v_low + (v_high - v_low + 1) / 2;
        select seq, created_at into v_seq, v_time from queen.messages
         where partition_id = p_partition and seq >= v_mid order by seq limit 1;
        if found and (v_time < p_time or (p_inclusive and v_time = p_time)) then
            v_low := greatest(v_seq, v_mid);
        else
            v_high := v_mid - 1;
        end if;
    end loop;
    return v_low;
end $$;
