-- Pops of p_size messages of one partition and their acknowledgement, p_times; p_run false: only what the calls are made of.
create or replace procedure bare.count_pop_ack(p_times integer, p_size integer, p_lanes integer, p_run boolean)
language plpgsql as $$
declare
    v_lease uuid;
    l       record;
begin
    for turn in 1 .. p_times loop
        v_lease := gen_random_uuid();
        if p_run then
            select x.partition_id, x.first_seq into l
              from queen.pop_lanes('bench', 'bench', array[p_size], array[1], array[v_lease]) x where x.request = 1;
            commit;
            perform from queen.ack_leases(array[l.partition_id], array['bench'], array[v_lease], array[l.first_seq + p_size - 1]);
        else
            commit;
        end if;
        commit;
    end loop;
end $$;
