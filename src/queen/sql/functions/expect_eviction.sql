-- Promises: after a push, queen.evict_queue will look at the lanes of these partitions when something in them can have waited too long.
--   The time may be too early: it stays while a lane goes on, and is put right when it has come.
-- Locks: consumer rows of the partitions that had no such time, in queues with a maximum wait. The caller holds the partition rows.
create or replace function queen.expect_eviction(p_ids bigint[]) returns void
language sql volatile as $$
    update queen.partition_consumers c set evict_at = queen.clock() + make_interval(secs => q.max_wait_time_seconds)
      from queen.queues q
     where c.partition_id = any (p_ids) and c.evict_at is null and q.id = c.queue_id and q.max_wait_time_seconds > 0
$$;
