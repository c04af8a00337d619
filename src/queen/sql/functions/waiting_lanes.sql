-- Promises: every lane (partition, group) of the given queues and group (null: all) that has something to get: how many messages, and
--   since when the oldest of them waits. One look-up by primary key per lane; no message is counted.
--   Planned for each call, so that the numbers of few queues do not cost those of all.
-- Locks: nothing.
create or replace function queen.waiting_lanes(p_queues bigint[] default null, p_group text default null)
returns table (queue_id bigint, partition_id bigint, partition_name text, consumer_group text, waiting bigint, oldest_at timestamptz,
               last_consumed_at timestamptz, lease_id uuid)
language plpgsql stable
set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    with t as materialized (select queen.clock() as now), lanes as (
        select p.queue_id, p.id, p.name, c.consumer_group, greatest(c.last_consumed_seq + 1, p.first_seq) as head, c.last_consumed_at,
               queen.lane_depth(p, c.consumer_group, c.last_consumed_seq) as waiting,
               case when c.lease_expires_at > t.now then c.lease_id end as lease_id
          from queen.partition_consumers c
          join queen.partitions p on p.id = c.partition_id and p.next_seq > greatest(c.last_consumed_seq + 1, p.first_seq)
         cross join t
         where (p_queues is null or p.queue_id = any (p_queues))
           and (p_group is null or c.consumer_group = p_group)
    )
    select l.queue_id, l.id, l.name, l.consumer_group, l.waiting, m.created_at, l.last_consumed_at, l.lease_id
      from lanes l
     cross join lateral (select x.created_at from queen.messages x where x.partition_id = l.id and x.seq >= l.head
                          order by x.seq limit 1) m
     where l.waiting > 0;
end $$;
