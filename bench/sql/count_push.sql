-- Pushes of p_size messages over p_lanes partitions that exist, p_times; p_run false: only what the call is made of.
--   One lane: a batch. Several: what single messages of as many callers become, with the partitions known.
create or replace procedure bare.count_push(p_times integer, p_size integer, p_lanes integer, p_run boolean)
language plpgsql as $$
declare
    l record;
    a record;
begin
    for turn in 1 .. p_times loop
        select array_agg(q.name order by p.id) as queues, array_agg(p.name order by p.id) as partitions, array_agg(p.id order by p.id) as ids
          into l from (select 'p' || (n * 37 + turn * 11) % 200 as name from generate_series(1, p_lanes) n) x
          join queen.partitions p using (name) join queen.queues q on q.id = p.queue_id and q.name = 'bench';
        select array_agg(i.lane order by i.lane, i.n) as lanes, array_agg(i.n / p_lanes order by i.lane, i.n) as ranks,
               array_agg(i.n + 1) as calls, array_agg(gen_random_uuid()) as ids, array_agg(gen_random_uuid()::text) as transactions,
               array_agg(jsonb_build_object('orderId', 123456, 'note', repeat('x', 165))) as payloads
          into a from (select n, n % p_lanes + 1 as lane from generate_series(0, p_size - 1) n) i;
        if p_run and p_lanes = 1 then
            perform from queen.push_messages(l.queues, l.partitions, null, null, a.ids, a.payloads, a.transactions, p_careful => false);
        elsif p_run then
            perform from queen.push_messages(l.queues, l.partitions, a.lanes, a.ranks, a.ids, a.payloads, a.transactions,
                                             p_call => a.calls, p_careful => false, p_wait => false, p_create => false, p_ids => l.ids);
        end if;
        commit;
    end loop;
end $$;
