-- Promises: from when the messages after the cursor may be handed out, by the queue's delay and window; p_now when nothing holds them
--   back. A lane that never rests is handed out once its oldest message is ten windows old.
-- Locks: nothing.
create or replace function queen.lane_ready_at(q queen.queues, p queen.partitions, p_cursor bigint, p_now timestamptz) returns timestamptz
language plpgsql stable as $$
declare
    v_head  timestamptz;
    v_ready timestamptz := p_now;
begin
    if q.delayed_processing = 0 and q.window_buffer = 0 then
        return p_now;
    end if;
    select m.created_at into v_head from queen.messages m
     where m.partition_id = p.id and m.seq > p_cursor order by m.seq limit 1;
    if q.delayed_processing > 0 then
        v_ready := greatest(v_ready, v_head + make_interval(secs => q.delayed_processing));
    end if;
    if q.window_buffer > 0 then
        v_ready := greatest(v_ready, least(p.last_created_at + make_interval(secs => q.window_buffer),
                                           v_head + make_interval(secs => 10.0 * q.window_buffer)));
    end if;
    return v_ready;
end $$;
