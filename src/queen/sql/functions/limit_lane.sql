-- Promises: what a pop may hand out of one partition, narrowed by everything but leases: skips, delay, window, maximum wait, retention by
--   age, maximum of deliveries, removed messages, and what has to come again together. What has to be passed is passed: messages past the maximum wait are dead-lettered as
--   evicted, those whose lease expired too often are dead-lettered, messages past retention, removed or skipped at the head are left
--   behind. An empty range: nothing to hand out now, and the partition is ready when there will be.
-- Locks: nothing more than the caller holds (the consumer row), and what queen.move_cursors takes.
create or replace function queen.limit_lane(
    q queen.queues, p_partition bigint, p_group text, p_batch integer, p_now timestamptz, out from_seq bigint, out to_seq bigint
) language plpgsql volatile as $$
declare
    c       queen.partition_consumers;
    p       queen.partitions;
    e       record;
    v_dead  bigint := 0;
    v_ready timestamptz;
begin
    select * into c from queen.partition_consumers pc where pc.partition_id = p_partition and pc.consumer_group = p_group;
    select * into p from queen.partitions where id = p_partition;
    from_seq := greatest(c.last_consumed_seq + 1, p.first_seq);
    to_seq := p.next_seq - 1;
    if q.max_deliveries > 0 and c.lease_id is not null and c.delivery_count + 1 >= q.max_deliveries and c.counted_to >= from_seq then
        v_dead := queen.dead_letter(q.id, p_partition, p_group, array(select generate_series(from_seq, c.counted_to)), null,
            format('lease expired %s times', c.delivery_count + 1), c.retry_count, false, p_now);
        from_seq := c.counted_to + 1;
    end if;
    if q.retention_enabled and q.retention_seconds > 0 then
        from_seq := greatest(from_seq, queen.seq_at(p_partition, p_now - make_interval(secs => q.retention_seconds)) + 1);
    end if;
    if q.max_wait_time_seconds > 0 then
        e := queen.evict_lane(q, p_partition, p_group, from_seq, 1000, p_now);
        from_seq := e.next_seq;
        v_dead := v_dead + e.dead;
        if queen.seq_at(p_partition, p_now - make_interval(secs => q.max_wait_time_seconds)) >= from_seq then
            to_seq := from_seq - 1;  -- more to evict than at once: the next pop goes on
        end if;
    end if;
    if p.has_skips and from_seq <= to_seq then
        from_seq := coalesce(queen.next_kept(p_partition, p_group, from_seq, to_seq), to_seq + 1);
    end if;
    if from_seq <= to_seq then
        v_ready := queen.lane_ready_at(q, p, from_seq - 1, p_now);
        if v_ready > p_now then
            to_seq := from_seq - 1;
        elsif q.delayed_processing > 0 then
            to_seq := least(to_seq, queen.seq_at(p_partition, p_now - make_interval(secs => q.delayed_processing), true));
        end if;
    end if;
    if from_seq = c.last_consumed_seq + 1 and c.counted_to >= from_seq then
        to_seq := least(to_seq, c.counted_to);
    end if;
    if p.has_skips and from_seq <= to_seq then
        -- The lease must end at a message that is handed out, not at a skipped one.
        to_seq := queen.last_kept(p_partition, p_group, from_seq, least(to_seq, from_seq + p_batch - 1));
    end if;
    if from_seq > to_seq or from_seq > c.last_consumed_seq + 1 then
        perform from queen.move_cursors(array[p_partition], array[p_group], null, array[from_seq - 1], p_outcome => 'expired',
                                        p_acked => false, p_failed => v_dead, p_ready => case when v_ready > p_now then v_ready end);
    end if;
end $$;
