-- Promises: null when the limited queue has room for the given number of messages, which is then theirs until commit or rollback;
--   otherwise the true depth, and nothing taken. Never overshoots, never refuses while there is room (R11). With p_wait false, when the
--   depth would have to be counted and someone else is pushing into the queue: -1 (R6). p_granted: what this call was given before and
--   has not stored yet, so that it is not in the depth.
-- Locks: one slot row of the queue (SKIP LOCKED); all sixteen in order when no free slot has enough.
create or replace function queen.take_credit(p_queue_id bigint, p_limit bigint, p_count bigint, p_wait boolean default true, p_granted bigint default 0)
returns bigint
language plpgsql volatile as $$
declare
    v_slot  smallint;
    v_depth bigint;
begin
    select slot into v_slot from queen.queue_credits
     where queue_id = p_queue_id and credit >= p_count
     order by slot limit 1 for no key update skip locked;
    if found then
        update queen.queue_credits set credit = credit - p_count where queue_id = p_queue_id and slot = v_slot;
        return null;
    end if;
    if not exists (select from queen.queue_credits where queue_id = p_queue_id) then
        insert into queen.queue_credits (queue_id, slot)
        select p_queue_id, s from generate_series(0, 15) s on conflict do nothing;
    end if;
    if p_wait then
        perform from queen.queue_credits where queue_id = p_queue_id order by slot for no key update;
    elsif (select count(*) < 16 from (select from queen.queue_credits where queue_id = p_queue_id order by slot
                                         for no key update skip locked) s) then
        return -1;
    end if;
    v_depth := queen.refill_credits(p_queue_id, p_limit, p_granted + p_count) + p_granted;
    if v_depth + p_count <= p_limit then
        return null;
    end if;
    perform queen.refill_credits(p_queue_id, p_limit, p_granted);
    return v_depth;
end $$;
