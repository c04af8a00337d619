-- Promises: takes credit on every limited queue among the lanes, for the calls in order; returns the calls that do not fit (null: all fit),
--   with the depth and limit of the queue that refused each, and with p_wait false the calls that would have to wait for someone else's
--   push (null: none); plain: every call fits and no item was found stored. Calls in p_out are out already and take nothing. What is stored already, comes twice, or is for later needs
--   no room. Credit that is not used, because a call was refused by another queue or an item was stored by someone else meanwhile, comes
--   back at the queue's next count.
-- Locks: credit slots, queues by id (see queen.take_credit).
create or replace function queen.refuse_full(
    p_queues bigint[], p_ids bigint[], p_id uuid[], p_lane integer[], p_call integer[], p_transaction_id text[],
    p_deliver_at timestamptz[], p_careful boolean, p_wait boolean, p_out integer[]
) returns table (calls integer[], depths bigint[], limits bigint[], busy integer[], plain boolean)
language plpgsql volatile as $$
declare
    v_known   integer[] := '{}';
    v_queue   bigint;
    v_granted bigint;
    v_full    bigint;
    v_refused bigint;
    r         record;
begin
    if p_careful or p_transaction_id is not null then
        select coalesce(array_agg(k.item), '{}') into v_known
          from queen.find_known(p_lane, p_id, p_transaction_id, p_ids, p_careful, queen.clock()) k;
    end if;
    plain := v_known = '{}';
    for r in
        select i.call, q.id, q.max_queue_size as size, count(distinct (i.lane, i.key)) as n
          from (select x.place, coalesce(x.call, 1) as call, coalesce(x.lane, 1) as lane, coalesce(x.transaction_id, x.id::text) as key,
                       x.deliver_at
                  from unnest(p_id, p_lane, p_call, p_transaction_id, p_deliver_at) with ordinality
                       x(id, lane, call, transaction_id, deliver_at, place)) i
          join queen.queues q on q.id = p_queues[i.lane]
         where q.max_queue_size > 0 and i.call <> all (p_out) and i.place <> all (v_known) and coalesce(i.deliver_at <= queen.clock(), true)
         group by 1, 2, 3 order by 2, 1
    loop
        if r.call = any (calls) or r.call = any (busy) then
            continue;
        end if;
        if r.id is distinct from v_queue then
            v_queue := r.id;
            v_granted := 0;
            v_refused := null;
        end if;
        -- What did not fit a moment ago does not fit now: a full queue is counted once, not for each call.
        v_full := case when r.n >= v_refused then depths[cardinality(depths)]
                       else queen.take_credit(r.id, r.size, r.n, p_wait, v_granted) end;
        if v_full = -1 then
            busy := busy || r.call;
        elsif v_full is not null then
            calls := calls || r.call;
            v_refused := r.n;
            depths := depths || v_full;
            limits := limits || r.size::bigint;
        else
            v_granted := v_granted + r.n;
        end if;
    end loop;
    plain := plain and calls is null and busy is null;
    return next;
end $$;
