-- Promises: lets go of one lane's lease if it still is p_lease (null: does nothing), uncounted: what was not acknowledged is delivered
--   again at once. Other lanes under the same lease keep it. Returns whether it did.
-- Locks: the consumer row, and what queen.decide_ready takes.
create or replace function queen.release_lane(p_partition bigint, p_group text, p_lease uuid) returns boolean
language plpgsql volatile as $$
declare
    v_now timestamptz;
    q     queen.queues;
    c     queen.partition_consumers;
    d     record;
begin
    select * into c from queen.partition_consumers pc
     where pc.partition_id = p_partition and pc.consumer_group = p_group and pc.lease_id = p_lease for no key update;
    if not found then
        return false;
    end if;
    v_now := queen.clock();
    select * into q from queen.queues where id = c.queue_id;
    if q.delivery_log then
        insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id,
                                      outcome, consumer_group)
        values (c.queue_id, p_partition, c.batch_from, c.batch_to, c.lease_acquired_at, v_now, c.retry_count, 0, c.lease_id, 'released',
                p_group);
    end if;
    d := queen.decide_ready(q, p_partition, c.last_consumed_seq, c.idle_ms, v_now);
    update queen.partition_consumers pc
       set lease_id = null, ready_at = d.ready_at, idle_ms = d.idle_ms, last_consumed_seq = d.cursor
     where pc.partition_id = p_partition and pc.consumer_group = p_group;
    return true;
end $$;
