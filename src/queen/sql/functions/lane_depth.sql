-- Promises: how many messages a group (null: any) has still to get from one partition after a cursor, less the ones it skips. The only
--   place where depth is reckoned. Arithmetic, no counting of messages (I8); one expression, so that it becomes part of its caller's plan.
-- Locks: nothing.
create or replace function queen.lane_depth(p queen.partitions, p_group text, p_cursor bigint) returns bigint
language sql stable as $$
    select greatest(p.next_seq - greatest(p_cursor + 1, p.first_seq), 0)
         - case when p.has_skips then queen.count_skips(p.id, p_group, greatest(p_cursor + 1, p.first_seq), p.next_seq) else 0 end
$$;
