-- Promises: adds what happened since the last run to the current minute of every queue (pushed, popped, acked, failed) and notes its lag:
--   messages the slowest group has to get (with no group, all that are kept), and the age of the oldest of them. Exact: differences of
--   running totals, from which goes what partitions and groups deleted since had counted. What happened is added to queen.totals too,
--   also of deleted queues. One pass over the heads and the cursors.
-- Locks: stats rows and the totals; nothing of the verbs.
create or replace function queen.collect_stats() returns bigint
language plpgsql volatile
set enable_hashjoin = on set enable_hashagg = on set jit = off set work_mem = '64MB' as $$
declare
    v_now    timestamptz := queen.clock();
    v_bucket timestamptz := date_trunc('minute', v_now);
    v_count  bigint;
begin
    with corrected as (
        delete from queen.stats_corrections returning *
    ), gone as (
        select c.queue_id, sum(c.pushed)::bigint as pushed, sum(c.popped)::bigint as popped, sum(c.acked)::bigint as acked,
               sum(c.failed)::bigint as failed
          from corrected c group by c.queue_id
    ), used as (
        select c.queue_id, sum(c.total_messages_delivered)::bigint as popped, sum(c.total_messages_consumed)::bigint as acked,
               sum(c.total_messages_failed)::bigint as failed
          from queen.partition_consumers c group by c.queue_id
    ), heads as (
        select p.queue_id, sum(p.next_seq - 1)::bigint as pushed, sum(d.depth)::bigint as depth,
               min(case when d.depth = 0 then null
                        when coalesce(c.slowest, 0) < p.first_seq and not p.has_skips then p.oldest_at
                        else (select m.created_at from queen.messages m
                               where m.partition_id = p.id and m.seq > greatest(c.slowest, p.first_seq - 1) order by m.seq limit 1)
                   end) as oldest
          from queen.partitions p
          left join (select x.partition_id, min(x.last_consumed_seq) as slowest from queen.partition_consumers x group by 1) c
            on c.partition_id = p.id
         cross join lateral (select queen.lane_depth(p, null, coalesce(c.slowest, 0)) as depth) d
         group by p.queue_id
    ), totals as (
        select q.id, coalesce(h.pushed, 0) as pushed, coalesce(u.popped, 0) as popped, coalesce(u.acked, 0) as acked,
               coalesce(u.failed, 0) as failed,
               case when exists (select from queen.subscriptions x where x.queue_id = q.id and not (x.filled and x.settled)) then queen.queue_depth(q.id)
                    else coalesce(h.depth, 0) end as lag,
               greatest(coalesce(extract(epoch from v_now - h.oldest) * 1000, 0), 0)::bigint as age
          from queen.queues q
          left join heads h on h.queue_id = q.id
          left join used u on u.queue_id = q.id
    ), fresh as (
        select t.id, t.lag, t.age, t.pushed - coalesce(o.pushed, 0) + coalesce(g.pushed, 0) as pushed,
               t.popped - coalesce(o.popped, 0) + coalesce(g.popped, 0) as popped, t.acked - coalesce(o.acked, 0) + coalesce(g.acked, 0) as acked,
               t.failed - coalesce(o.failed, 0) + coalesce(g.failed, 0) as failed
          from totals t
          left join queen.stats_totals o on o.queue_id = t.id
          left join gone g on g.queue_id = t.id
    ), added as (
        insert into queen.stats as s (queue_id, bucket, pushed, popped, acked, failed, lag, max_lag_ms)
        select f.id, v_bucket, f.pushed, f.popped, f.acked, f.failed, f.lag, f.age from fresh f
            on conflict (queue_id, bucket) do update
           set pushed = s.pushed + excluded.pushed, popped = s.popped + excluded.popped, acked = s.acked + excluded.acked,
               failed = s.failed + excluded.failed, lag = excluded.lag, max_lag_ms = greatest(s.max_lag_ms, excluded.max_lag_ms)
        returning 1
    ), kept as (
        insert into queen.stats_totals as k (queue_id, pushed, popped, acked, failed)
        select t.id, t.pushed, t.popped, t.acked, t.failed from totals t
            on conflict (queue_id) do update
           set pushed = excluded.pushed, popped = excluded.popped, acked = excluded.acked, failed = excluded.failed
        returning 1
    ), counted as (
        update queen.totals k
           set pushed = k.pushed + f.pushed, popped = k.popped + f.popped, acked = k.acked + f.acked, failed = k.failed + f.failed
          from (select coalesce(sum(x.pushed), 0) as pushed, coalesce(sum(x.popped), 0) as popped, coalesce(sum(x.acked), 0) as acked,
                       coalesce(sum(x.failed), 0) as failed
                  from (select f.pushed, f.popped, f.acked, f.failed from fresh f
                         union all
                        select g.pushed, g.popped, g.acked, g.failed from gone g
                         where not exists (select from totals t where t.id = g.queue_id)) x) f
    )
    select count(*) into v_count from added;
    return v_count;
end $$;
