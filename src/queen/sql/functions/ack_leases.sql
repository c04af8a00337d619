-- Promises: "everything up to p_up_to is done" for whole leases at once, the common case: one update per lane, no message is read.
--   The cursor moves to p_up_to (never back, never past the batch), the retry count starts again, the lease ends when the batch is
--   done and the lane becomes ready when more is waiting. A token that is no longer in the row is 'lost' and changes nothing (I4); one
--   that only ran out of time is still good (R10). p_wait false: a row someone else holds is 'busy' (R6). Each (partition, group) at
--   most once. One row per entry.
-- Locks: consumer rows by (partition, group); partition rows of lanes that look drained, only with SKIP LOCKED (R2).
create or replace function queen.ack_leases(
    p_partition bigint[], p_group text[], p_lease uuid[], p_up_to bigint[], p_wait boolean default true
) returns table (entry integer, status text, released boolean, consumed bigint, queue_id bigint)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    v_n       integer := cardinality(p_partition);
    v_now     timestamptz;
    v_visit   integer[] := '{}';
    v_drained bigint[] := '{}';
    v_status  text[] := array_fill(case when p_wait then 'lost' else 'busy' end, array[v_n]);
    v_cursor  bigint[] := array_fill(null::bigint, array[v_n]);
    v_count   bigint[] := array_fill(0::bigint, array[v_n]);
    v_done    boolean[] := array_fill(false, array[v_n]);
    v_head    bigint[] := array_fill(null::bigint, array[v_n]);
    v_sure    boolean[] := array_fill(false, array[v_n]);
    v_ready   timestamptz[] := array_fill(null::timestamptz, array[v_n]);
    v_idle    integer[] := array_fill(0, array[v_n]);
    v_queue   bigint[] := array_fill(null::bigint, array[v_n]);
    v_logged  boolean[] := array_fill(false, array[v_n]);
    v_from    bigint[] := array_fill(null::bigint, array[v_n]);
    v_to      bigint[] := array_fill(null::bigint, array[v_n]);
    v_leased  timestamptz[] := array_fill(null::timestamptz, array[v_n]);
    e         integer;
    k         integer := 1;
    c         record;
begin
    for c in select * from queen.lock_lanes(p_partition, p_group, p_wait) loop
        e := c.entry;
        if c.lease_id is null or c.lease_id is distinct from p_lease[e] then
            v_status[e] := 'lost';
            continue;
        end if;
        v_status[e] := 'acked';
        v_visit := v_visit || e;
        v_cursor[e] := least(greatest(c.cursor, p_up_to[e]), c.batch_to);
        v_count[e] := v_cursor[e] - c.cursor;
        v_done[e] := v_cursor[e] >= c.batch_to;
        v_head[e] := c.next_seq;
        v_idle[e] := c.idle_ms;
        v_queue[e] := c.queue_id;
        v_logged[e] := c.delivery_log and v_done[e];
        v_from[e] := c.batch_from;
        v_to[e] := c.batch_to;
        v_leased[e] := c.lease_acquired_at;
        if v_done[e] and c.next_seq <= v_cursor[e] + 1 then
            v_drained := v_drained || c.partition_id;
        end if;
    end loop;

    if cardinality(v_drained) > 0 then
        for c in select p.id, p.next_seq from queen.partitions p where p.id = any (v_drained) order by p.id
                    for no key update skip locked loop
            while p_partition[v_visit[k]] < c.id loop k := k + 1; end loop;
            while p_partition[v_visit[k]] = c.id loop
                v_head[v_visit[k]] := c.next_seq;
                v_sure[v_visit[k]] := true;
                k := k + 1;
            end loop;
        end loop;
    end if;

    v_now := queen.clock();
    foreach e in array v_visit loop
        if v_done[e] then
            if v_head[e] > v_cursor[e] + 1 then
                v_ready[e] := v_now;
                v_idle[e] := 0;
            elsif v_sure[e] then
                v_idle[e] := 0;
            else
                v_idle[e] := least(greatest(v_idle[e] * 2, 30), 250);
                v_ready[e] := v_now + make_interval(secs => v_idle[e] / 1000.0);
            end if;
        end if;
    end loop;

    update queen.partition_consumers pc
       set last_consumed_seq = l.cursor, last_consumed_at = v_now,
           total_messages_consumed = pc.total_messages_consumed + l.n,
           total_batches_consumed = pc.total_batches_consumed + case when l.done then 1 else 0 end,
           retry_count = case when l.n > 0 then 0 else pc.retry_count end,
           delivery_count = case when l.n > 0 then 0 else pc.delivery_count end,
           idle_ms = l.idle,
           ready_at = case when l.done then l.ready else pc.ready_at end,
           lease_id = case when not l.done then pc.lease_id end
      from unnest(p_partition, p_group, v_cursor, v_count, v_done, v_ready, v_idle) l(id, name, cursor, n, done, ready, idle)
     where l.cursor is not null and pc.partition_id = l.id and pc.consumer_group = l.name;

    insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id,
                                  outcome, consumer_group)
    select l.queue, l.id, l.first, l.last, l.leased, v_now, 0, 0, l.lease, 'completed', l.name
      from unnest(p_partition, p_group, v_queue, v_from, v_to, v_leased, p_lease, v_logged)
           l(id, name, queue, first, last, leased, lease, logged)
     where l.logged;

    return query
        select l.place::integer, l.status, l.done, l.n, l.queue
          from unnest(v_status, v_done, v_count, v_queue) with ordinality l(status, done, n, queue, place);
end $$;
