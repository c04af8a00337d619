-- Promises: null when the limited queue has room for the given number of messages, which is then theirs until commit or rollback;
--   otherwise the true depth, and nothing taken. Never overshoots, never refuses while there is room, and counts only when the credit
--   that is left does not do (R11). With p_wait false, when it would have to count and someone else is pushing into the queue: -1 (R6).
--   p_granted: what this call was given before and has not stored yet, so that it is not in the depth.
-- Locks: one slot row of the queue that has enough (SKIP LOCKED), else all sixteen in order; with p_wait false all that are free.
create or replace function queen.take_credit(p_queue_id bigint, p_limit bigint, p_count bigint, p_wait boolean default true, p_granted bigint default 0)
returns bigint
language plpgsql volatile as $$
declare
    v_slots smallint[];
    v_left  bigint;
    v_depth bigint;
begin
    update queen.queue_credits c set credit = c.credit - p_count
     where c.ctid = (select x.ctid from queen.queue_credits x where x.queue_id = p_queue_id and x.credit >= p_count
                      order by x.slot limit 1 for no key update skip locked);
    if found then
        return null;
    end if;
    if not exists (select from queen.queue_credits where queue_id = p_queue_id) then
        insert into queen.queue_credits (queue_id, slot)
        select p_queue_id, s from generate_series(0, 15) s on conflict do nothing;
    end if;
    -- Who waits takes all of them in order: two that waited for what the other holds would be a deadlock.
    if p_wait then
        perform from queen.queue_credits x where x.queue_id = p_queue_id order by x.slot for no key update;
    end if;
    select array_agg(s.slot), sum(s.credit) - p_count into v_slots, v_left
      from (select x.slot, x.credit from queen.queue_credits x where x.queue_id = p_queue_id order by x.slot
               for no key update skip locked) s;
    if v_left >= 0 then
        perform queen.spread_credit(p_queue_id, v_slots, v_left);
        return null;
    elsif coalesce(cardinality(v_slots), 0) < 16 then
        return -1;
    end if;
    -- Every slot is held: no push of this queue is in flight, and the depth is exact.
    v_depth := queen.queue_depth(p_queue_id) + p_granted;
    v_left := p_limit - v_depth - case when v_depth + p_count <= p_limit then p_count else 0 end;
    perform queen.spread_credit(p_queue_id, v_slots, greatest(v_left, 0));
    return case when v_depth + p_count > p_limit then v_depth end;
end $$;
