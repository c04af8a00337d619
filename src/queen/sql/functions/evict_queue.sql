-- Promises: dead-letters, as evicted, the messages of a queue that waited longer than max_wait_time_seconds, once per group for which they
--   were still pending; at most p_limit per lane and run. Lanes with a live lease wait for their lease to end. Returns how many.
-- Locks: consumer rows with SKIP LOCKED.
create or replace function queen.evict_queue(p_queue_id bigint, p_limit integer default 1000) returns bigint
language plpgsql volatile as $$
declare
    q       queen.queues;
    v_now   timestamptz := queen.clock();
    v_count bigint := 0;
    v_was   bigint;
    v_next  bigint;
    c       record;
begin
    select * into q from queen.queues where id = p_queue_id;
    if not found or q.max_wait_time_seconds = 0 then
        return 0;
    end if;
    for c in
        select pc.partition_id, pc.consumer_group, pc.last_consumed_seq, pc.lease_id, pc.lease_expires_at, pc.idle_ms, p.first_seq
          from queen.partition_consumers pc join queen.partitions p on p.id = pc.partition_id
         where pc.queue_id = p_queue_id and pc.ready_at is not null and p.next_seq > pc.last_consumed_seq + 1
         order by pc.partition_id, pc.consumer_group
           for no key update of pc skip locked
    loop
        continue when c.lease_id is not null and c.lease_expires_at > v_now;
        v_was := greatest(c.last_consumed_seq + 1, c.first_seq);
        v_next := queen.evict_lane(q, c.partition_id, c.consumer_group, v_was, p_limit, v_now);
        if v_next > v_was then
            select pc.last_consumed_seq + 1 - v_was + v_count into v_count from queen.partition_consumers pc
             where pc.partition_id = c.partition_id and pc.consumer_group = c.consumer_group;
            perform queen.settle_lane(q, c.partition_id, c.consumer_group, v_now);
        end if;
    end loop;
    return v_count;
end $$;
