-- Promises: the slots have this much credit together, in equal parts.
-- Locks: nothing more than the caller holds (the slot rows).
create or replace function queen.spread_credit(p_queue_id bigint, p_slots smallint[], p_credit bigint) returns void
language sql volatile as $$
    update queen.queue_credits c
       set credit = p_credit / cardinality(p_slots) + case when s.place <= p_credit % cardinality(p_slots) then 1 else 0 end
      from unnest(p_slots) with ordinality s(slot, place)
     where c.queue_id = p_queue_id and c.slot = s.slot
$$;
