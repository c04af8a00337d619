-- Rows with no queue around them, p_size for each of p_times commits; p_run false: only what the call is made of.
create or replace procedure bare.count_insert(p_times integer, p_size integer, p_lanes integer, p_run boolean)
language plpgsql as $$
declare
    a record;
begin
    for turn in 1 .. p_times loop
        select array_agg(1::bigint) as partitions, array_agg(nextval('queen.message_pos')) as seqs, array_agg(gen_random_uuid()) as ids,
               array_agg(gen_random_uuid()::text) as transactions,
               array_agg(jsonb_build_object('orderId', 123456, 'note', repeat('x', 165))) as payloads
          into a from generate_series(1, p_size);
        if p_run then
            insert into bare.messages (partition_id, seq, pos, id, created_at, transaction_id, payload)
            select p, s, s, i, now(), t, j from unnest(a.partitions, a.seqs, a.ids, a.transactions, a.payloads) x(p, s, i, t, j);
        end if;
        commit;
    end loop;
end $$;
