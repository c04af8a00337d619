-- Promises: how many leases are live, and how many ran out and wait for the next pop. Bookkeeping only: a lease that ran out comes back by
--   itself, and its token must stay good for a late ack (R10).
-- Locks: nothing.
create or replace function queen.count_leases() returns table (live bigint, expired bigint)
language sql stable as $$
    select count(*) filter (where c.lease_expires_at > queen.clock()), count(*) filter (where c.lease_expires_at <= queen.clock())
      from queen.partition_consumers c where c.lease_id is not null
$$;
