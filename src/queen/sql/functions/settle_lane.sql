-- Promises: writes down when a lane with nothing to hand out may be looked at again (see queen.decide_ready). The token of a lease that
--   ran out stays good for a late ack unless the lane is drained.
-- Locks: nothing more than the caller holds (the consumer row) and what queen.decide_ready takes.
create or replace function queen.settle_lane(q queen.queues, p_partition bigint, p_group text, p_now timestamptz) returns void
language plpgsql volatile as $$
declare
    c queen.partition_consumers;
    d record;
begin
    select * into c from queen.partition_consumers pc where pc.partition_id = p_partition and pc.consumer_group = p_group;
    d := queen.decide_ready(q, p_partition, c.last_consumed_seq, c.idle_ms, p_now);
    update queen.partition_consumers pc
       set ready_at = d.ready_at, idle_ms = d.idle_ms, last_consumed_seq = d.cursor,
           lease_id = case when d.ready_at is not null then pc.lease_id end
     where pc.partition_id = p_partition and pc.consumer_group = p_group;
end $$;
