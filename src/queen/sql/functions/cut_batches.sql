-- Promises: batches that were just leased and will wait in their consumer's memory (a prefetch) end where their payloads pass a mebibyte,
--   at the earliest after their first message: what lies behind was not popped. Returns where each ends now.
-- Locks: nothing more than the caller holds (the consumer rows).
create or replace function queen.cut_batches(p_partition bigint[], p_group text, p_from bigint[], p_to bigint[]) returns bigint[]
language plpgsql volatile as $$
declare
    v_ends  bigint[] := p_to;
    v_bytes bigint;
    v_last  bigint;
    m       record;
begin
    for i in 1 .. cardinality(p_partition) loop
        continue when p_to[i] = p_from[i];
        v_bytes := 0;
        v_last := null;
        for m in
            select y.seq, octet_length(y.payload::text) as size from queen.messages y
             where y.partition_id = p_partition[i] and y.seq between p_from[i] and p_to[i]
               and not exists (select from queen.skips s where s.partition_id = y.partition_id and s.seq = y.seq
                                  and s.consumer_group in ('*', p_group))
             order by y.seq
        loop
            v_bytes := v_bytes + m.size;
            if v_last is not null and v_bytes > 1048576 then
                v_ends[i] := v_last;
                exit;
            end if;
            v_last := m.seq;
        end loop;
    end loop;
    update queen.partition_consumers c
       set batch_to = u.ending, total_messages_delivered = c.total_messages_delivered - (c.batch_to - u.ending)
      from unnest(p_partition, v_ends, p_to) u(id, ending, was)
     where u.ending < u.was and c.partition_id = u.id and c.consumer_group = p_group;
    return v_ends;
end $$;
