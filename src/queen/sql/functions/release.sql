-- Promises: hands leases back, uncounted: what was not acknowledged is delivered again, in order, after p_delay_ms. p_partition: only
--   there, the lease's other partitions keep it. Returns how many partitions each lease gave back; 0 when it is not there any more.
-- Locks: consumer rows of the leases, by (partition, group).
create or replace function queen.release(p_lease uuid[], p_delay_ms integer default 0, p_partition bigint default null)
returns table (entry integer, released bigint, queue_ids bigint[])
language plpgsql volatile
set enable_seqscan = off set jit = off as $$
declare
    v_ids    bigint[];
    v_groups text[];
    v_leases uuid[];
    v_seqs   bigint[];
begin
    select array_agg(c.partition_id), array_agg(c.consumer_group), array_agg(c.lease_id), array_agg(c.last_consumed_seq)
      into v_ids, v_groups, v_leases, v_seqs
      from (select x.* from queen.partition_consumers x
             where x.lease_id = any (p_lease) and (p_partition is null or x.partition_id = p_partition)
             order by x.partition_id, x.consumer_group for no key update) c;
    return query
        with given as (
            select v_leases[m.entry] as lease_id, m.queue_id
              from queen.move_cursors(v_ids, v_groups, v_leases, v_seqs, p_outcome => 'released', p_over => true, p_acked => false,
                                      p_ready => queen.clock() + make_interval(secs => p_delay_ms / 1000.0)) m
             where m.released
        )
        select l.place::integer, count(g.lease_id), coalesce(array_agg(distinct g.queue_id) filter (where g.queue_id is not null), '{}')
          from unnest(p_lease) with ordinality l(id, place) left join given g on g.lease_id = l.id
         group by l.place order by l.place;
end $$;
