-- Promises: spreads what a limited queue can still take, less what the caller is about to push, over its slots; returns the true depth.
--   Callers hold every slot row, so no push of this queue is in flight and the depth is exact (R11).
-- Locks: nothing more than the caller holds.
create or replace function queen.refill_credits(p_queue_id bigint, p_limit bigint, p_taking bigint) returns bigint
language plpgsql volatile as $$
declare
    v_depth bigint := queen.queue_depth(p_queue_id);
    v_room  bigint := greatest(p_limit - v_depth - p_taking, 0);
begin
    update queen.queue_credits
       set credit = v_room / 16 + case when slot < v_room % 16 then 1 else 0 end
     where queue_id = p_queue_id;
    return v_depth;
end $$;
