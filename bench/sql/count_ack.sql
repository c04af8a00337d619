-- Acknowledgements of one message each under p_size leases that go on, in one call, p_times; p_run false: only what the call is made of.
create or replace procedure bare.count_ack(p_times integer, p_size integer, p_lanes integer, p_run boolean)
language plpgsql as $$
declare
    a record;
begin
    for turn in 1 .. p_times loop
        select array_agg(c.partition_id) as ids, array_agg(c.consumer_group) as groups, array_agg(c.lease_id) as leases,
               array_agg(c.last_consumed_seq + 1) as seqs
          into a from (select * from queen.partition_consumers where lease_id is not null order by partition_id limit p_size) c;
        if p_run then
            perform from queen.ack_leases(a.ids, a.groups, a.leases, a.seqs, false);
        end if;
        commit;
    end loop;
end $$;
