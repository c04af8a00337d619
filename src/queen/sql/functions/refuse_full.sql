-- Promises: takes credit on every limited queue among the lanes, call by call in order; returns the calls that do not fit (null: all fit),
--   with the depth and limit of the queue that refused last. Credit a refused call took on another queue comes back at that queue's
--   next recount.
-- Locks: credit slots, queues by id within a call (see queen.take_credit).
create or replace function queen.refuse_full(p_queues bigint[], p_id uuid[], p_lane integer[], p_call integer[])
returns table (calls integer[], depth bigint, queue_limit bigint)
language plpgsql volatile as $$
declare
    v_full bigint;
    r      record;
begin
    for r in
        select coalesce(p_call[i], 1) as call, q.id, q.max_queue_size as size, count(*) as n
          from generate_subscripts(p_id, 1) i
          join queen.queues q on q.id = p_queues[coalesce(p_lane[i], 1)]
         where q.max_queue_size > 0
         group by 1, 2, 3 order by 1, 2
    loop
        if r.call = any (calls) then
            continue;
        end if;
        v_full := queen.take_credit(r.id, r.size, r.n);
        if v_full is not null then
            calls := calls || r.call;
            depth := v_full;
            queue_limit := r.size;
        end if;
    end loop;
    return next;
end $$;
