-- Promises: from when a lane may be handed out again (R2), for a caller that has locked its consumer row: more waiting and old enough:
--   now; waiting but too young, or still inside its window: when it will be; drained for certain: null, until a push says so; a push in
--   flight: in 30 ms, doubling to 250 ms. A cursor behind removed messages jumps to where the kept ones start.
-- Locks: the partition row, only with SKIP LOCKED: nothing that holds a consumer row ever waits for a partition row.
create or replace function queen.decide_ready(
    q queen.queues, p_partition bigint, p_cursor bigint, p_idle integer, p_now timestamptz,
    out ready_at timestamptz, out idle_ms integer, out cursor bigint)
language plpgsql volatile as $$
declare
    p queen.partitions;
begin
    idle_ms := 0;
    cursor := p_cursor;
    select * into p from queen.partitions where id = p_partition;
    if p.next_seq <= greatest(p_cursor + 1, p.first_seq) then
        select * into p from queen.partitions where id = p_partition for no key update skip locked;
        if not found then
            idle_ms := least(greatest(p_idle * 2, 30), 250);
            ready_at := p_now + make_interval(secs => idle_ms / 1000.0);
            return;
        end if;
    end if;
    cursor := greatest(p_cursor, p.first_seq - 1);
    if p.next_seq > cursor + 1 then
        ready_at := queen.lane_ready_at(q, p, cursor, p_now);
    end if;
end $$;
