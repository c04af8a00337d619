-- Promises: up to p_limit lanes of the group that may be handed out now, the one ready longest first, locked for the caller. The heads
--   are read plainly: they may be a moment old, which only makes a lane look drained (queen.limit_lane looks again).
--   p_now is a parameter, so the time is an index condition and not a filter over every leased lane (R7).
-- Locks: the consumer rows returned (SKIP LOCKED).
create or replace function queen.ready_lanes(
    p_queue_id bigint, p_group text, p_only bigint, p_mark timestamptz, p_now timestamptz, p_limit integer
) returns table (partition_id bigint, partition_name text, ready_at timestamptz, cursor bigint, first_seq bigint, next_seq bigint,
                 has_skips boolean, lease_id uuid, lease_acquired_at timestamptz, batch_from bigint, batch_to bigint,
                 counted_to bigint, retry_count integer, delivery_count integer)
language plpgsql volatile as $$
begin
    if p_only is null then
        return query
            select c.partition_id, p.name, c.ready_at, c.last_consumed_seq, p.first_seq, p.next_seq, p.has_skips, c.lease_id,
                   c.lease_acquired_at, c.batch_from, c.batch_to, c.counted_to, c.retry_count, c.delivery_count
              from queen.partition_consumers c
             cross join lateral (select x.* from queen.partitions x where x.id = c.partition_id limit 1) p
             where c.queue_id = p_queue_id and c.consumer_group = p_group and c.ready_at >= p_mark and c.ready_at <= p_now
             order by c.ready_at
             limit p_limit
               for no key update of c skip locked;
    else
        return query
            select c.partition_id, p.name, c.ready_at, c.last_consumed_seq, p.first_seq, p.next_seq, p.has_skips, c.lease_id,
                   c.lease_acquired_at, c.batch_from, c.batch_to, c.counted_to, c.retry_count, c.delivery_count
              from queen.partition_consumers c
             cross join lateral (select x.* from queen.partitions x where x.id = c.partition_id limit 1) p
             where c.partition_id = p_only and c.consumer_group = p_group and c.ready_at <= p_now
               for no key update of c skip locked;
    end if;
end $$;
