-- Promises: dead-letters, as evicted, up to p_limit messages from p_from on that waited longer than the queue allows, and returns the
--   first seq after them: where the cursor is to go on (the caller moves it). History that was already too old when a named group first
--   came is passed without a dead letter; queue mode is nobody's first contact, what was pushed before it waited for it.
-- Locks: nothing more than the caller holds (the consumer row).
create or replace function queen.evict_lane(
    q queen.queues, p_partition bigint, p_group text, p_from bigint, p_limit integer, p_now timestamptz, out next_seq bigint, out dead bigint
) language plpgsql volatile as $$
declare
    v_last    bigint := queen.seq_at(p_partition, p_now - make_interval(secs => q.max_wait_time_seconds));
    v_history bigint;
begin
    next_seq := p_from;
    dead := 0;
    if v_last < p_from then
        return;
    end if;
    if p_group <> '__QUEUE_MODE__' then
        select queen.seq_at(p_partition, s.created_at - make_interval(secs => q.max_wait_time_seconds)) + 1 into v_history
          from queen.subscriptions s where s.queue_id = q.id and s.consumer_group = p_group;
        next_seq := greatest(p_from, v_history);
    end if;
    v_last := least(v_last, next_seq + p_limit - 1);
    dead := queen.dead_letter(q.id, p_partition, p_group, array(select generate_series(next_seq, v_last)), null,
                              'evicted: waited longer than maxWaitTimeSeconds', 0, true, p_now);
    next_seq := v_last + 1;
    if dead > 0 then
        insert into queen.retention_history (queue_id, partition_id, retention_type, messages_removed, up_to_seq, executed_at)
        values (q.id, p_partition, 'evicted', dead, v_last, p_now);
    end if;
end $$;
