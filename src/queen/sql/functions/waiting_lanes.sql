-- Promises: every lane (partition, group) of the given queues and group (null: all) that has something to get: how many messages, and
--   since when the oldest of them waits. One look-up by primary key per lane; no message is counted.
-- Locks: nothing.
create or replace function queen.waiting_lanes(p_queues bigint[] default null, p_group text default null)
returns table (queue_id bigint, partition_id bigint, partition_name text, consumer_group text, waiting bigint, oldest_at timestamptz,
               last_consumed_at timestamptz, lease_id uuid)
language sql stable set jit = off as $$
    select p.queue_id, p.id, p.name, c.consumer_group, d.waiting, m.created_at, c.last_consumed_at,
           case when c.lease_expires_at > queen.clock() then c.lease_id end
      from queen.partition_consumers c
      join queen.partitions p on p.id = c.partition_id and p.next_seq > greatest(c.last_consumed_seq + 1, p.first_seq)
     cross join lateral (select queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting) d
     cross join lateral (select x.created_at from queen.messages x
                          where x.partition_id = p.id and x.seq >= greatest(c.last_consumed_seq + 1, p.first_seq)
                          order by x.seq limit 1) m
     where (p_queues is null or p.queue_id = any (p_queues))
       and (p_group is null or c.consumer_group = p_group)
       and d.waiting > 0
$$;
