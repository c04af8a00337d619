-- Promises: narrows the range a pop may hand out from a lane whose queue has a delay, a window, a maximum wait, a retention by age or a
--   maximum of deliveries, or whose partition has skips. Messages past the maximum wait are dead-lettered as evicted, a batch that
--   expired too often is dead-lettered, messages past retention or skipped at the head are passed. An empty range: nothing to hand out
--   now (the caller settles the lane).
-- Locks: nothing more than the caller holds (the consumer row).
create or replace function queen.limit_lane(
    q queen.queues, p_partition bigint, p_group text, p_from bigint, p_to bigint, p_lease uuid, p_batch integer, p_now timestamptz
) returns table (from_seq bigint, to_seq bigint)
language plpgsql volatile as $$
declare
    v_from bigint := p_from;
    v_to   bigint := p_to;
    v_seq  bigint;
    c      queen.partition_consumers;
    p      queen.partitions;
begin
    select * into c from queen.partition_consumers pc where pc.partition_id = p_partition and pc.consumer_group = p_group;
    select * into p from queen.partitions where id = p_partition;
    if q.max_deliveries > 0 and c.lease_id is not null and c.delivery_count + 1 >= q.max_deliveries and c.batch_to >= v_from then
        perform queen.dead_letter(q.id, p_partition, p_group, v_from, c.batch_to,
            format('lease expired %s times', c.delivery_count + 1), c.retry_count, false, p_now);
        update queen.partition_consumers pc
           set last_consumed_seq = c.batch_to, delivery_count = 0, retry_count = 0,
               total_messages_failed = pc.total_messages_failed + (c.batch_to - v_from + 1)
         where pc.partition_id = p_partition and pc.consumer_group = p_group;
        v_from := c.batch_to + 1;
    end if;
    if q.retention_enabled and q.retention_seconds > 0 then
        v_seq := queen.seq_at(p_partition, p_now - make_interval(secs => q.retention_seconds));
        if v_seq >= v_from then
            update queen.partition_consumers pc set last_consumed_seq = greatest(pc.last_consumed_seq, v_seq)
             where pc.partition_id = p_partition and pc.consumer_group = p_group;
            v_from := v_seq + 1;
        end if;
    end if;
    if q.max_wait_time_seconds > 0 then
        v_from := queen.evict_lane(q, p_partition, p_group, v_from, 1000, p_now);
    end if;
    if p.has_skips then
        while v_from <= v_to and exists (select from queen.skips s where s.partition_id = p_partition and s.seq = v_from
                                            and s.consumer_group in ('*', p_group)) loop
            v_from := v_from + 1;
        end loop;
        if v_from > p_from then
            update queen.partition_consumers pc set last_consumed_seq = greatest(pc.last_consumed_seq, v_from - 1)
             where pc.partition_id = p_partition and pc.consumer_group = p_group;
        end if;
    end if;
    if v_from <= v_to and queen.lane_ready_at(q, p, v_from - 1, p_now) > p_now then
        v_to := v_from - 1;
    elsif q.delayed_processing > 0 then
        v_to := least(v_to, queen.seq_at(p_partition, p_now - make_interval(secs => q.delayed_processing), true));
    end if;
    if p.has_skips and v_from <= v_to then
        -- The lease must end at a message that is handed out, not at a skipped one.
        v_to := least(v_to, v_from + p_batch - 1);
        while v_to >= v_from and exists (select from queen.skips s where s.partition_id = p_partition and s.seq = v_to
                                            and s.consumer_group in ('*', p_group)) loop
            v_to := v_to - 1;
        end loop;
    end if;
    return query select v_from, v_to;
end $$;
