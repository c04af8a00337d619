-- Promises: "everything up to p_up_to is done" for whole leases at once, the common case: one update per lane, no message is read.
--   The cursor moves to p_up_to (never back, never past the batch), the retry count starts again, the lease ends when the batch is
--   done and the lane becomes ready when more is waiting. A token that is no longer in the row is 'lost' and changes nothing (I4); one
--   that only ran out of time is still good (R10). p_wait false: a row someone else holds is 'busy' (R6). Each (partition, group) at
--   most once. One row per entry, in any order. A row that someone changed between this statement's snapshot and our lock is held, but
--   its place is not to be seen: then nothing is done and the caller is to try again (40001).
-- Locks: consumer rows by (partition, group); partition rows of lanes that look drained, only with SKIP LOCKED (R2).
create or replace function queen.ack_leases(
    p_partition bigint[], p_group text[], p_lease uuid[], p_up_to bigint[], p_wait boolean default true
) returns table (entry integer, status text, released boolean, consumed bigint, queue_id bigint)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off set enable_memoize = off
set jit = off set plan_cache_mode = force_generic_plan as $$
begin
    if p_wait then
        perform from queen.lock_lanes(p_partition, p_group, true);
    end if;
    return query
        with decided as materialized (
            select u.entry, l.*, t.now, h.delivery_log, case
                       when coalesce(s.next_seq, h.next_seq) > l.reached + 1 then t.now
                       when s.next_seq is null then
                           t.now + make_interval(secs => least(greatest(l.idle_ms * 2, 30), 250) / 1000.0) end as ready
              from (select queen.clock() as now offset 0) t
             cross join (select generate_subscripts(p_partition, 1) as entry, unnest(p_partition) as id, unnest(p_group) as name,
                                unnest(p_lease) as lease, unnest(p_up_to) as up_to) u
              left join lateral (
                select c.ctid as place, c.partition_id as id, c.queue_id, c.last_consumed_seq as cursor, c.batch_from, c.batch_to,
                       c.lease_acquired_at, c.idle_ms, greatest(c.last_consumed_seq, least(u.up_to, c.batch_to)) as reached,
                       u.up_to >= c.batch_to or c.last_consumed_seq >= c.batch_to as done
                  from queen.partition_consumers c
                 where c.partition_id = u.id and c.consumer_group = u.name and c.lease_id = u.lease limit 1
                   for no key update skip locked) l on true
              -- The head is read plainly: more waiting is certain, drained has to be looked at again under the partition's lock.
              left join lateral (select p.next_seq, q.delivery_log from queen.partitions p, queen.queues q
                                  where l.done and p.id = l.id and q.id = l.queue_id limit 1) h on true
              left join lateral (select p.next_seq from queen.partitions p
                                  where h.next_seq <= l.reached + 1 and p.id = l.id limit 1
                                    for no key update skip locked) s on true
        ), moved as (
            update queen.partition_consumers pc
               set last_consumed_seq = d.reached, last_consumed_at = d.now,
                   total_messages_consumed = pc.total_messages_consumed + (d.reached - d.cursor),
                   total_batches_consumed = pc.total_batches_consumed + d.done::integer,
                   retry_count = case when d.reached > d.cursor then 0 else pc.retry_count end,
                   delivery_count = case when d.reached > d.cursor then 0 else pc.delivery_count end,
                   idle_ms = case when d.done and d.ready > d.now then (extract(epoch from d.ready - d.now) * 1000)::integer else 0 end,
                   ready_at = case when d.done then d.ready else pc.ready_at end,
                   lease_id = case when not d.done then pc.lease_id end
              from decided d
             where pc.ctid = d.place
            returning 1
        ), logged as (
            insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                                          lease_id, outcome, consumer_group)
            select d.queue_id, d.id, d.batch_from, d.batch_to, d.lease_acquired_at, d.now, 0, 0, p_lease[d.entry], 'completed',
                   p_group[d.entry]
              from decided d where d.done and d.delivery_log
        )
        select d.entry::integer, case when d.place is not null then 'acked'
                                      when not p_wait and exists (
                                        select from queen.partition_consumers c
                                         where c.partition_id = p_partition[d.entry] and c.consumer_group = p_group[d.entry]
                                           and c.lease_id = p_lease[d.entry]) then 'busy'
                                      else 'lost' end,
               coalesce(d.done, false), coalesce(d.reached - d.cursor, 0), d.queue_id
          from decided d
         where (select count(*) from moved) = (select count(x.place) from decided x) or queen.lane_changed();
end $$;
