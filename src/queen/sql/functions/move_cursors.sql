-- Promises: the one place where a group goes on in a partition (R15): sets the cursor, starts the counts, ends the lease, decides when
--   the partition is ready. Each entry's cursor goes to p_to; never back unless p_back, and under a token (p_lease) never past the batch.
--   Where it moves, the retry and delivery counts start at zero: they were of messages that are passed now. p_retries and p_counted_to
--   say what is counted instead, and up to which seq. The lease ends when its batch is passed, or whatever is left with p_over; the log
--   of deliveries says p_outcome. A partition without a lease is ready at p_ready, or (null) by what waits: at once when there is more,
--   not at all when it is drained for certain, soon when a push is under way (R2). p_acked: what was passed counts as consumed, less
--   p_dead; p_failed counts as failed.
--   A token that is no longer in the row is 'lost' and changes nothing (I4); one that only ran out of time is still good (R10). A row
--   someone else holds is 'busy' (R6) unless p_wait. Each (partition, group) at most once. One row per entry, in any order; more: the partition is without a lease and not certainly drained. A row that someone changed
--   between this statement's snapshot and our lock is held, but its place is not to be seen: then nothing is done and the caller is to
--   try again (40001).
-- Locks: consumer rows, with p_wait by (partition, group), else with SKIP LOCKED; partition rows of partitions that look drained, only
--   with SKIP LOCKED (R2).
create or replace function queen.move_cursors(
    p_partition bigint[], p_group text[], p_lease uuid[], p_to bigint[], p_wait boolean default false,
    p_outcome text default 'completed', p_over boolean default false, p_back boolean default false, p_ready timestamptz default null,
    p_acked boolean default true, p_dead bigint default 0, p_failed bigint default 0, p_retries integer default null, p_counted_to bigint default null
) returns table (entry integer, status text, released boolean, consumed bigint, queue_id bigint, more boolean)
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
                       when p_ready is not null then p_ready
                       when coalesce(s.next_seq, h.next_seq) > l.reached + 1 then t.now
                       when s.next_seq is null then
                           t.now + make_interval(secs => least(greatest(l.idle_ms * 2, 30), 250) / 1000.0) end as ready
              from (select queen.clock() as now offset 0) t
             cross join (select generate_subscripts(p_partition, 1) as entry, unnest(p_partition) as id, unnest(p_group) as name,
                                unnest(p_lease) as lease, unnest(p_to) as up_to) u
              left join lateral (
                select c.ctid as place, c.partition_id as id, c.queue_id, c.lease_id, c.last_consumed_seq as cursor, c.batch_from,
                       c.batch_to, c.lease_acquired_at, c.retry_count, c.idle_ms,
                       case when p_back then u.up_to
                            else greatest(c.last_consumed_seq, least(u.up_to, case when p_lease is not null then c.batch_to end))
                            end as reached,
                       p_over or c.lease_id is null or u.up_to >= c.batch_to or c.last_consumed_seq >= c.batch_to as over
                  from queen.partition_consumers c
                 where c.partition_id = u.id and c.consumer_group = u.name and (p_lease is null or c.lease_id = u.lease) limit 1
                   for no key update skip locked) l on true
              -- The head is read plainly: more waiting is certain, drained has to be looked at again under the partition's lock.
              left join lateral (select p.next_seq, q.delivery_log from queen.partitions p, queen.queues q
                                  where l.over and p.id = l.id and q.id = l.queue_id limit 1) h on true
              left join lateral (select p.next_seq from queen.partitions p
                                  where h.next_seq <= l.reached + 1 and p_ready is null and p.id = l.id limit 1
                                    for no key update skip locked) s on true
        ), moved as (
            update queen.partition_consumers pc
               set last_consumed_seq = d.reached,
                   last_consumed_at = case when p_acked and d.reached > d.cursor then d.now else pc.last_consumed_at end,
                   total_messages_consumed = pc.total_messages_consumed + case when p_acked then d.reached - d.cursor - p_dead else 0 end,
                   total_batches_consumed = pc.total_batches_consumed
                                          + (p_acked and d.over and d.lease_id is not null and p_ready is null)::integer,
                   total_messages_failed = pc.total_messages_failed + p_failed,
                   retry_count = coalesce(p_retries, case when d.reached = d.cursor and not p_back then pc.retry_count else 0 end),
                   delivery_count = case when d.reached = d.cursor and not p_back then pc.delivery_count else 0 end,
                   counted_to = coalesce(p_counted_to, case
                       when d.over and (p_back or d.reached > d.cursor or pc.retry_count + pc.delivery_count = 0) then 0
                       else pc.counted_to end),
                   idle_ms = case when d.over and d.ready > d.now and p_ready is null
                                  then (extract(epoch from d.ready - d.now) * 1000)::integer else 0 end,
                   ready_at = case when d.over or p_ready is not null then d.ready else pc.ready_at end,
                   -- The service put off its look until the lease would have run out.
                   evict_at = case when d.over and pc.evict_at > d.now and pc.evict_at <= pc.lease_expires_at then d.now else pc.evict_at end,
                   lease_id = case when not d.over then pc.lease_id end
              from decided d
             where pc.ctid = d.place
            returning 1
        ), logged as (
            insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                                          lease_id, outcome, consumer_group)
            select d.queue_id, d.id, d.batch_from, d.batch_to, d.lease_acquired_at, d.now, d.retry_count, p_failed, d.lease_id, p_outcome,
                   p_group[d.entry]
              from decided d where d.over and d.delivery_log and d.lease_id is not null
        )
        select d.entry::integer, case when d.place is not null then 'acked'
                                      when exists (
                                        select from queen.partition_consumers c
                                         where c.partition_id = p_partition[d.entry] and c.consumer_group = p_group[d.entry]
                                           and (p_lease is null or c.lease_id = p_lease[d.entry])) then 'busy'
                                      else 'lost' end,
               d.over and d.lease_id is not null, coalesce(d.reached - d.cursor, 0), d.queue_id, d.over and d.ready is not null
          from decided d
         where (select count(*) from moved) = (select count(x.place) from decided x) or queen.lane_changed();
end $$;
