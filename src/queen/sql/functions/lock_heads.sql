-- Promises: locks the partitions in the order of their ids and returns, in the order given, the next seq, the time of the last message
--   and the row's place, which is the same until the transaction ends (null where the partition is gone or, with p_wait false, held by
--   someone else). A locking read returns the newest committed row, so the heads are current whatever the statement's snapshot.
--   Planned under the settings of queen.push_messages.
-- Locks: the partition rows, until the transaction ends.
create or replace function queen.lock_heads(
    p_ids bigint[], p_wait boolean, out bases bigint[], out times timestamptz[], out places tid[], out missing boolean
) language plpgsql volatile as $$
declare
    v_order integer[];
    k       integer := 1;
    r       record;
begin
    if cardinality(p_ids) = 1 then
        if p_wait then
            select array[p.next_seq], array[p.last_created_at], array[p.ctid] into bases, times, places
              from queen.partitions p where p.id = p_ids[1] for no key update;
        else
            select array[p.next_seq], array[p.last_created_at], array[p.ctid] into bases, times, places
              from queen.partitions p where p.id = p_ids[1] for no key update skip locked;
        end if;
        missing := not found;
        return;
    end if;
    -- v_order says which place the k-th smallest id has.
    select array_agg(n.place::integer order by n.id), array_agg(null::bigint), array_agg(null::timestamptz), array_agg(null::tid)
      into v_order, bases, times, places
      from unnest(p_ids) with ordinality n(id, place);
    if p_wait then
        for r in select p.id, p.next_seq, p.last_created_at, p.ctid as place from queen.partitions p
                  where p.id = any (p_ids) order by p.id for no key update loop
            while p_ids[v_order[k]] < r.id loop k := k + 1; end loop;
            bases[v_order[k]] := r.next_seq;
            times[v_order[k]] := r.last_created_at;
            places[v_order[k]] := r.place;
        end loop;
    else
        for r in select p.id, p.next_seq, p.last_created_at, p.ctid as place from queen.partitions p
                  where p.id = any (p_ids) order by p.id for no key update skip locked loop
            while p_ids[v_order[k]] < r.id loop k := k + 1; end loop;
            bases[v_order[k]] := r.next_seq;
            times[v_order[k]] := r.last_created_at;
            places[v_order[k]] := r.place;
        end loop;
    end if;
    missing := array_position(bases, null) is not null;
end $$;
