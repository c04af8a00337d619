-- Promises: how many messages a group (null: any) has still to get from one partition after a cursor, less the ones it skips. The only
--   place where depth is reckoned. Arithmetic, no counting of messages (I8).
-- Locks: nothing.
create or replace function queen.lane_depth(p queen.partitions, p_group text, p_cursor bigint) returns bigint
language sql stable as $$
    select greatest(p.next_seq - greatest(p_cursor + 1, p.first_seq), 0)
         - case when p.has_skips then (
               select count(distinct s.seq) from queen.skips s
                where s.partition_id = p.id and s.consumer_group in ('*', p_group)
                  and s.seq >= greatest(p_cursor + 1, p.first_seq) and s.seq < p.next_seq) else 0 end
$$;
