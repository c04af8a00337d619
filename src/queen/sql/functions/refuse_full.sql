-- Promises: takes credit on every limited queue among the lanes, for the calls in order; returns the calls that do not fit (null: all fit),
--   with the depth and limit of the queue that refused last, and with p_wait false the calls that would have to wait for someone else's
--   push (null: none). Credit a refused call took on another queue comes back at that queue's next recount.
-- Locks: credit slots, queues by id (see queen.take_credit).
create or replace function queen.refuse_full(p_queues bigint[], p_id uuid[], p_lane integer[], p_call integer[], p_wait boolean)
returns table (calls integer[], depth bigint, queue_limit bigint, busy integer[])
language plpgsql volatile as $$
declare
    v_queue   bigint;
    v_granted bigint;
    v_full    bigint;
    r         record;
begin
    for r in
        select coalesce(p_call[i], 1) as call, q.id, q.max_queue_size as size, count(*) as n
          from generate_subscripts(p_id, 1) i
          join queen.queues q on q.id = p_queues[coalesce(p_lane[i], 1)]
         where q.max_queue_size > 0
         group by 1, 2, 3 order by 2, 1
    loop
        if r.call = any (calls) or r.call = any (busy) then
            continue;
        end if;
        v_granted := case when r.id = v_queue then v_granted else 0 end;
        v_queue := r.id;
        v_full := queen.take_credit(r.id, r.size, r.n, p_wait, v_granted);
        if v_full = -1 then
            busy := busy || r.call;
        elsif v_full is not null then
            calls := calls || r.call;
            depth := v_full;
            queue_limit := r.size;
        else
            v_granted := v_granted + r.n;
        end if;
    end loop;
    return next;
end $$;
