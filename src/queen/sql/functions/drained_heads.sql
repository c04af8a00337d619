-- Promises: the next seq of those partitions of p_drained whose lock could be had, in the places they have in p_ids (ascending); null in
--   the other places. Under the lock no push is in flight, so the head is certain until the caller commits (R2).
-- Locks: partition rows with SKIP LOCKED.
create or replace function queen.drained_heads(p_ids bigint[], p_drained bigint[]) returns bigint[]
language plpgsql volatile as $$
declare
    v_heads bigint[];
    k       integer := 1;
    r       record;
begin
    if cardinality(p_ids) = 1 then
        select array[p.next_seq] into v_heads from queen.partitions p where p.id = p_ids[1] for no key update skip locked;
        return v_heads;
    end if;
    v_heads := array_fill(null::bigint, array[cardinality(p_ids)]);
    for r in select p.id, p.next_seq from queen.partitions p where p.id = any (p_drained) order by p.id
                for no key update skip locked loop
        while p_ids[k] < r.id loop k := k + 1; end loop;
        while p_ids[k] = r.id loop
            v_heads[k] := r.next_seq;
            k := k + 1;
        end loop;
    end loop;
    return v_heads;
end $$;
