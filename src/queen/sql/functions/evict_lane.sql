-- Promises: dead-letters up to p_limit messages of a lane that waited longer than the queue allows, as evicted, and moves the cursor past
--   them; history that was already too old at the group's first contact is passed without a dead letter. Returns the first seq that is
--   still good, or, when there was more to evict than p_limit, a seq past the head so that nothing is handed out yet.
-- Locks: nothing more than the caller holds (the consumer row).
create or replace function queen.evict_lane(
    q queen.queues, p_partition bigint, p_group text, p_from bigint, p_limit integer, p_now timestamptz
) returns bigint
language plpgsql volatile as $$
declare
    v_from    bigint := p_from;
    v_last    bigint := queen.seq_at(p_partition, p_now - make_interval(secs => q.max_wait_time_seconds));
    v_history bigint;
    v_more    boolean;
    v_evicted bigint;
begin
    if v_last < v_from then
        return v_from;
    end if;
    select queen.seq_at(p_partition, s.created_at - make_interval(secs => q.max_wait_time_seconds)) into v_history
      from queen.subscriptions s where s.queue_id = q.id and s.consumer_group = p_group;
    v_from := greatest(v_from, least(coalesce(v_history, 0), v_last) + 1);
    v_more := v_last >= v_from + p_limit;
    v_last := least(v_last, v_from + p_limit - 1);
    v_evicted := queen.dead_letter(q.id, p_partition, p_group, v_from, v_last, 'evicted: waited longer than maxWaitTimeSeconds',
                                   0, true, p_now);
    update queen.partition_consumers pc
       set last_consumed_seq = greatest(pc.last_consumed_seq, v_last), retry_count = 0,
           total_messages_failed = pc.total_messages_failed + v_evicted
     where pc.partition_id = p_partition and pc.consumer_group = p_group;
    if v_evicted > 0 then
        insert into queen.retention_history (queue_id, partition_id, retention_type, messages_removed, up_to_seq, executed_at)
        values (q.id, p_partition, 'evicted', v_evicted, v_last, p_now);
    end if;
    return case when v_more then 9223372036854775807 else v_last + 1 end;
end $$;
