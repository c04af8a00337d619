-- Promises: batches that were just leased end where the payloads of their request pass p_bytes, at the earliest after its first message: what lies
--   behind was not popped. Returns where each ends now; null for one that got nothing, whose lease is given back. The entries of a
--   request stand together. What is small is seen without being unpacked.
-- Locks: nothing more than the caller holds (the consumer rows).
create or replace function queen.cut_batches(
    p_req integer[], p_partition bigint[], p_group text, p_lease uuid[], p_from bigint[], p_to bigint[], p_bytes bigint) returns bigint[]
language plpgsql volatile as $$
declare
    v_ends  bigint[] := p_to;
    v_bytes bigint;
    v_full  boolean;
    v_last  bigint;
    m       record;
begin
    -- As text a number may have 32 times the bytes it is stored in, and what is compressed once more 256 times as many.
    if (select sum(pg_column_size(y.payload)::bigint * case when pg_column_compression(y.payload) is null then 32 else 8192 end)
          from unnest(p_partition, p_from, p_to) l(id, from_seq, to_seq)
         cross join lateral (select x.payload from queen.messages x where x.partition_id = l.id and x.seq between l.from_seq and l.to_seq) y
       ) <= p_bytes then
        return p_to;
    end if;
    for i in 1 .. cardinality(p_partition) loop
        if i = 1 or p_req[i] <> p_req[i - 1] then
            v_bytes := 0;
            v_full := false;
        end if;
        v_last := null;
        for m in
            select y.seq, octet_length(y.payload::text) as size from queen.messages y
             where not v_full and y.partition_id = p_partition[i] and y.seq between p_from[i] and p_to[i]
               and not exists (select from queen.skips s where s.partition_id = y.partition_id and s.seq = y.seq
                                  and s.consumer_group in ('*', p_group))
             order by y.seq
        loop
            v_full := v_bytes > 0 and v_bytes + m.size > p_bytes;
            exit when v_full;
            v_bytes := v_bytes + m.size;
            v_last := m.seq;
        end loop;
        if v_full then
            v_ends[i] := v_last;
        end if;
    end loop;
    update queen.partition_consumers c
       set batch_to = coalesce(u.ending, c.batch_to), counted_to = least(c.counted_to, coalesce(u.ending, c.counted_to)),
           total_messages_delivered = c.total_messages_delivered - (c.batch_to - coalesce(u.ending, c.batch_from - 1))
      from unnest(p_partition, v_ends, p_to) u(id, ending, was)
     where u.ending is distinct from u.was and c.partition_id = u.id and c.consumer_group = p_group;
    perform from queen.move_cursors(
        array(select u.id from unnest(p_partition, v_ends) with ordinality u(id, ending, place) where u.ending is null order by u.place),
        array(select p_group from unnest(v_ends) u(ending) where u.ending is null),
        array(select p_lease[u.req] from unnest(p_req, v_ends) with ordinality u(req, ending, place) where u.ending is null order by u.place),
        array(select 0::bigint from unnest(v_ends) u(ending) where u.ending is null),
        p_outcome => 'released', p_over => true, p_acked => false, p_ready => queen.clock());
    return v_ends;
end $$;
