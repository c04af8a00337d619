-- Promises: what queen.seq_at does, for times that are probably recent: looks at the newest 64 messages first and searches only below them.
-- Locks: nothing.
create or replace function queen.seq_from_head(p_partition bigint, p_first bigint, p_next bigint, p_time timestamptz, p_inclusive boolean)
returns bigint
language sql stable as $$
    select coalesce(
        (select max(near.seq) from (select m.seq, m.created_at from queen.messages m where m.partition_id = p_partition
                                     order by m.seq desc limit 64) near
          where near.created_at < p_time or (p_inclusive and near.created_at = p_time)),
        case when p_next - p_first > 64 then queen.seq_at(p_partition, p_time, p_inclusive) else p_first - 1 end)
$$;
