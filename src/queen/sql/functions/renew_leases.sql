-- Promises: the lease lives at least p_seconds from now on every partition it holds (never shorter than it already does); returns one row
--   per lease: how many partitions, and the earliest expiry. A lease that ran out is not revived: renewed 0.
-- Locks: consumer rows of the leases, by (partition, group).
create or replace function queen.renew_leases(p_lease uuid[], p_seconds integer)
returns table (entry integer, renewed bigint, expires_at timestamptz)
language plpgsql volatile
set enable_seqscan = off set jit = off as $$
declare
    v_now timestamptz;
begin
    perform from queen.partition_consumers c where c.lease_id = any (p_lease)
      order by c.partition_id, c.consumer_group for no key update;
    v_now := queen.clock();
    return query
        with kept as (
            update queen.partition_consumers c
               set lease_expires_at = greatest(c.lease_expires_at, v_now + make_interval(secs => p_seconds)),
                   ready_at = greatest(c.lease_expires_at, v_now + make_interval(secs => p_seconds))
             where c.lease_id = any (p_lease) and c.lease_expires_at > v_now
            returning c.lease_id, c.lease_expires_at
        )
        select l.place::integer, count(k.lease_id), min(k.lease_expires_at)
          from unnest(p_lease) with ordinality l(id, place) left join kept k on k.lease_id = l.id
         group by l.place order by l.place;
end $$;
