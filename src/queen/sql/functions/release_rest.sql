-- Promises: gives back what lies behind p_up_to in whole leases: messages that were popped ahead and that nobody has. The batch is what
--   comes before, as if no more had been popped: where that is done already the lease ends and the lane is ready ('released'), otherwise
--   whoever has it keeps it ('kept'). A token that is no longer in the row, or a batch that ends there anyway, changes nothing ('lost').
--   A row someone else holds is 'busy' (R6). Each (partition, group) at most once. One row per entry, in any order. 40001 as in
--   queen.ack_leases.
-- Locks: consumer rows, only with SKIP LOCKED.
create or replace function queen.release_rest(p_partition bigint[], p_group text[], p_lease uuid[], p_up_to bigint[])
returns table (entry integer, status text, queue_id bigint)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off set enable_memoize = off
set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    return query
        with decided as materialized (
            select u.entry, l.*, t.now
              from (select queen.clock() as now offset 0) t
             cross join unnest(p_partition, p_group, p_lease, p_up_to) with ordinality u(id, name, lease, up_to, entry)
              left join lateral (
                select c.ctid as place, c.partition_id as id, c.queue_id, c.batch_from, c.lease_acquired_at,
                       greatest(u.up_to, c.last_consumed_seq) as last, c.last_consumed_seq >= u.up_to as done
                  from queen.partition_consumers c
                 where c.partition_id = u.id and c.consumer_group = u.name and c.lease_id = u.lease
                   and c.batch_to > greatest(u.up_to, c.last_consumed_seq) limit 1
                   for no key update skip locked) l on true
        ), moved as (
            update queen.partition_consumers pc
               set batch_to = d.last, total_messages_delivered = pc.total_messages_delivered - (pc.batch_to - d.last),
                   total_batches_consumed = pc.total_batches_consumed + d.done::integer, idle_ms = 0,
                   ready_at = case when d.done then d.now else pc.ready_at end,
                   lease_id = case when not d.done then pc.lease_id end
              from decided d
             where pc.ctid = d.place
            returning 1
        ), logged as (
            insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                                          lease_id, outcome, consumer_group)
            select d.queue_id, d.id, d.batch_from, d.last, d.lease_acquired_at, d.now, 0, 0, p_lease[d.entry], 'completed',
                   p_group[d.entry]
              from decided d join queen.queues q on q.id = d.queue_id
             where d.done and q.delivery_log
        )
        select d.entry::integer, case when d.done then 'released'
                                      when d.place is not null then 'kept'
                                      when exists (select from queen.partition_consumers c
                                                    where c.partition_id = p_partition[d.entry] and c.consumer_group = p_group[d.entry]
                                                      and c.lease_id = p_lease[d.entry]
                                                      and c.batch_to > greatest(p_up_to[d.entry], c.last_consumed_seq)) then 'busy'
                                      else 'lost' end,
               d.queue_id
          from decided d
         where (select count(*) from moved) = (select count(x.place) from decided x) or queen.lane_changed();
end $$;
