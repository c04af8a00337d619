-- Promises: a push above READ COMMITTED fails with 40001 when a lane it would have to wake has changed since its snapshot, instead of
--   losing the wake-up (R4). Called with the partitions locked, so that nobody can decide any more that a lane is drained. A lock that
--   does not conflict with an ordinary update (FOR KEY SHARE) would not notice one that has committed.
-- Locks: consumer rows of the partitions, by (partition, group), until the transaction ends.
create or replace function queen.guard_lanes(p_ids bigint[]) returns void
language plpgsql volatile as $$
begin
    perform from queen.partition_consumers where partition_id = any (p_ids) order by partition_id, consumer_group for no key update;
end $$;
