-- Promises: leases of which nothing is left to finish, now that p_seq is gone for the group (null: for all groups), end: they would hide
--   what comes after until they expire. Gone for all, others end at the last message that is left of their batch.
-- Locks: consumer rows of the partition by group; the caller holds the partition row (R3).
create or replace function queen.end_emptied(p_partition bigint, p_group text, p_seq bigint) returns void
language plpgsql volatile as $$
declare
    l      record;
    v_last bigint;
begin
    for l in
        select c.consumer_group, c.last_consumed_seq, c.batch_to from queen.partition_consumers c
         where c.partition_id = p_partition and (p_group is null or c.consumer_group = p_group) and c.lease_id is not null
           and c.last_consumed_seq < p_seq and c.batch_to >= p_seq
         order by c.consumer_group for no key update
    loop
        v_last := queen.last_kept(p_partition, l.consumer_group, l.last_consumed_seq + 1, l.batch_to);
        if v_last is null then
            perform from queen.move_cursors(array[p_partition], array[l.consumer_group], null, array[l.batch_to], p_outcome => 'moved',
                                            p_acked => false);
        elsif p_group is null and v_last < l.batch_to then  -- gone for one group it can still be acknowledged
            update queen.partition_consumers c set batch_to = v_last
             where c.partition_id = p_partition and c.consumer_group = l.consumer_group;
        end if;
    end loop;
end $$;
