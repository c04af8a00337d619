-- Promises: the numbers of every partition of the given queues (null: of all). kept: messages there are; waiting: those the slowest known
--   group has still to get (no group: all); processing: those of them inside a live lease; failed: those of them that failed before
--   and wait, unleased, for another try. Completed is kept - waiting. Arithmetic on cursors, less skips; no message is counted (I8).
--   Planned for each call, so that the numbers of few queues do not cost those of all.
-- Locks: nothing.
create or replace function queen.count_partitions(p_queues bigint[] default null)
returns table (partition_id bigint, queue_id bigint, groups bigint, kept bigint, waiting bigint, processing bigint, failed bigint)
language plpgsql stable
set jit = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    return query
    with t as materialized (select queen.clock() as now), lanes as (
        select p.id, p.queue_id, p.has_skips, count(c.partition_id) as groups, queen.lane_depth(p, null, 0) as kept,
               max(queen.lane_depth(p, c.consumer_group, c.last_consumed_seq)) as waiting,
               range_agg(int8range(greatest(c.batch_from, c.last_consumed_seq + 1), c.batch_to + 1))
                   filter (where c.lease_id is not null and c.lease_expires_at > t.now and c.batch_to > c.last_consumed_seq) as leased,
               max(c.counted_to - greatest(c.last_consumed_seq, p.first_seq - 1))
                   filter (where c.lease_id is null and c.retry_count > 0 and c.counted_to > c.last_consumed_seq) as failed
          from queen.partitions p
         cross join t
          left join queen.partition_consumers c on c.partition_id = p.id
         where p_queues is null or p.queue_id = any (p_queues)
         group by p.id
    )
    select l.id, l.queue_id, l.groups, l.kept, l.waiting,
           case when l.leased is null then 0 else (select sum(upper(r) - lower(r)) from unnest(l.leased) r)::bigint
               - case when l.has_skips then (select count(*) from queen.skips s
                       where s.partition_id = l.id and s.consumer_group = '*' and l.leased @> s.seq) else 0 end end,
           coalesce(l.failed, 0)
      from lanes l;
end $$;
