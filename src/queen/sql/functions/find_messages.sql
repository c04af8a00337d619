-- Promises: the seqs of many messages by their transaction ids, in the order given; null where there is none. First in the given range
--   (a lease), read once; then one of the producer's own by the index, and one the server made up (the text of the message id) among
--   the messages stored within five minutes of the time it carries, read once however many are asked for.
-- Locks: nothing.
create or replace function queen.find_messages(p_partition bigint, p_names text[], p_from bigint, p_to bigint) returns bigint[]
language plpgsql stable
set enable_seqscan = off set enable_nestloop = off set enable_bitmapscan = off set jit = off as $$
declare
    v_seqs bigint[];
    v_made constant text := '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$';
begin
    for v_round in 1 .. 2 loop
        select array_agg(coalesce(n.seq, m.seq) order by n.place) into v_seqs
          from unnest(p_names, v_seqs) with ordinality n(name, seq, place)
          left join (select coalesce(x.transaction_id, x.id::text) as name, x.seq from queen.messages x
                      where x.partition_id = p_partition and x.seq between p_from and p_to and (v_round = 1 or x.transaction_id is null)) m
            on m.name = case v_round when 1 then n.name else lower(n.name) end;
        exit when array_position(v_seqs, null) is null or v_round = 2;
        select array_agg(coalesce(n.seq, m.seq) order by n.place) into v_seqs
          from unnest(p_names, v_seqs) with ordinality n(name, seq, place)
          left join lateral (select x.seq from queen.messages x
                              where n.seq is null and x.partition_id = p_partition and x.transaction_id = n.name limit 1) m on true;
        select queen.seq_at(p_partition, min(t.made) - interval '5 minutes') + 1,
               queen.seq_at(p_partition, max(t.made) + interval '5 minutes') into p_from, p_to
          from unnest(p_names, v_seqs) n(name, seq)
         cross join lateral (select queen.uuid7_time(n.name::uuid) as made offset 0) t
         where n.seq is null and n.name ~* v_made;
        exit when p_from is null;
    end loop;
    return v_seqs;
end $$;
