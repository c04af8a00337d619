-- Promises: "everything up to p_up_to is done" for whole leases at once, the common case: one update per lane, no message is read.
--   The cursor moves to p_up_to (never back, never past the batch), the retry count starts again, the lease ends when the batch is
--   done and the lane becomes ready when more is waiting. A token that is no longer in the row is 'lost' and changes nothing (I4); one
--   that only ran out of time is still good (R10). p_wait false: a row someone else holds is 'busy' (R6). Each (partition, group) at
--   most once. One row per entry, in any order.
-- Locks: consumer rows by (partition, group); partition rows of lanes that look drained, only with SKIP LOCKED (R2).
create or replace function queen.ack_leases(
    p_partition bigint[], p_group text[], p_lease uuid[], p_up_to bigint[], p_wait boolean default true
) returns table (entry integer, status text, released boolean, consumed bigint, queue_id bigint)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    a       record;  -- arrays by the order of the locks: what was locked and what becomes of it
    v_heads bigint[];
    v_acked integer;
begin
    -- The heads are read plainly: more waiting is certain, drained has to be looked at again under the partition's lock.
    select array_agg(l.entry) as entries, array_agg(l.place) as places, array_agg(l.partition_id) as ids, array_agg(l.lease_id = p_lease[l.entry]) as owned,
           array_agg(l.cursor) as was, array_agg(least(greatest(l.cursor, p_up_to[l.entry]), l.batch_to)) as cursors,
           array_agg(p_up_to[l.entry] >= l.batch_to or l.cursor >= l.batch_to) as done,
           array_agg(l.next_seq) as heads, array_agg(l.idle_ms) as idle, array_agg(l.queue_id) as queues,
           array_agg(l.delivery_log) as logged, array_agg(l.batch_from) as first, array_agg(l.batch_to) as last,
           array_agg(l.lease_acquired_at) as leased,
           array_agg(l.partition_id) filter (where l.lease_id = p_lease[l.entry] and l.next_seq <= l.batch_to + 1
                                               and (p_up_to[l.entry] >= l.batch_to or l.cursor >= l.batch_to)) as drained
      into a
      from queen.lock_lanes(p_partition, p_group, p_wait) l;
    if a.drained is not null then
        v_heads := queen.drained_heads(a.ids, a.drained);
    end if;
    return query
        with decided as materialized (
            select d.entry, d.place, d.id, p_group[d.entry] as name, d.was, d.cursor, d.done, d.queue, d.logged, d.first, d.last,
                   d.leased, d.ready,
                   case when d.done and d.ready > d.now then (extract(epoch from d.ready - d.now) * 1000)::integer else 0 end as idle, d.now
              from (select x.*, c.now, case
                           when not x.done then null
                           when coalesce(x.sure, x.head) > x.cursor + 1 then c.now
                           when x.sure is null then
                               c.now + make_interval(secs => least(greatest(x.idle * 2, 30), 250) / 1000.0) end as ready
                      from unnest(a.entries, a.places, a.ids, a.owned, a.was, a.cursors, a.done, a.heads, a.idle, a.queues, a.logged,
                                  a.first, a.last, a.leased, v_heads)
                           x(entry, place, id, owned, was, cursor, done, head, idle, queue, logged, first, last, leased, sure)
                     cross join (select queen.clock() as now offset 0) c
                     where x.owned) d
        ), moved as (
            update queen.partition_consumers pc
               set last_consumed_seq = d.cursor, last_consumed_at = d.now,
                   total_messages_consumed = pc.total_messages_consumed + (d.cursor - d.was),
                   total_batches_consumed = pc.total_batches_consumed + d.done::integer,
                   retry_count = case when d.cursor > d.was then 0 else pc.retry_count end,
                   delivery_count = case when d.cursor > d.was then 0 else pc.delivery_count end,
                   idle_ms = d.idle,
                   ready_at = case when d.done then d.ready else pc.ready_at end,
                   lease_id = case when not d.done then pc.lease_id end
              from decided d
             where pc.ctid = d.place
        ), logged as (
            insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                                          lease_id, outcome, consumer_group)
            select d.queue, d.id, d.first, d.last, d.leased, d.now, 0, 0, p_lease[d.entry], 'completed', d.name
              from decided d where d.done and d.logged
        )
        select d.entry, 'acked', d.done, d.cursor - d.was, d.queue from decided d;
    get diagnostics v_acked = row_count;
    if v_acked < cardinality(p_partition) then
        return query
            select i, case when p_wait or i = any (a.entries) or not exists (
                                select from queen.partition_consumers pc
                                 where pc.partition_id = p_partition[i] and pc.consumer_group = p_group[i]) then 'lost'
                           else 'busy' end, false, 0::bigint, null::bigint
              from generate_subscripts(p_partition, 1) i
             where not coalesce(a.owned[array_position(a.entries, i)], false);
    end if;
end $$;
