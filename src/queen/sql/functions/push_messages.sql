-- Promises: stores the items of one or more calls in the order given, all or nothing per call; creates queues and partitions on first
--   use; seq is handed out under the partition's row lock, so seq order is commit order (I1); the same transaction id in the same
--   partition is stored once (I7); lanes with nothing waiting become ready.
--   Lanes: p_queue/p_partition, each pair once. Items: p_lane points into them (1-based, ascending), p_call says which call it belongs
--   to (null: one call), p_rank its place within its lane (0-based). p_payload null array elements are JSON null.
--   p_wait false: a partition held by someone else makes its calls 'busy' instead of waiting (R6).
--   p_create false: calls that name a queue or partition that does not exist yet come back 'absent' (creating can wait for others).
--   p_careful: the caller saw a transaction id twice, or retries after an unknown outcome: look up every item before storing it.
--   Returns one row per lane when everything was stored (item null, seq of its first item), otherwise one row per item:
--   queued, duplicate (with the first one's id), scheduled, busy, absent, full. woken: a group had nothing waiting there until now.
-- Locks: queue rows (R4, R5), credit slots of limited queues by queue id, partition rows by id, then consumer rows.
create or replace function queen.push_messages(
    p_queue text[], p_partition text[],
    p_lane integer[], p_rank integer[], p_id uuid[], p_payload jsonb[],
    p_transaction_id text[] default null, p_trace_id uuid[] default null, p_parent_id uuid[] default null,
    p_deliver_at timestamptz[] default null, p_producer_sub text[] default null, p_encrypted boolean[] default null,
    p_call integer[] default null, p_wait boolean default true, p_careful boolean default false, p_create boolean default true
) returns table (lane integer, item integer, status text, partition_id bigint, seq bigint, message_id uuid, queue_id bigint,
                 woken boolean, depth bigint, queue_limit bigint)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    v_lanes     integer := cardinality(p_queue);
    v_items     integer := cardinality(p_id);
    v_queues    bigint[];
    v_ids       bigint[];
    v_delays    double precision[];
    v_limited   boolean;
    v_sealed    boolean;
    v_order     integer[];
    v_base      bigint[];
    v_last      timestamptz[];
    v_counts    bigint[];
    v_woken     bigint[];
    v_full      integer[] := '{}';
    v_full_depth bigint; v_full_limit bigint;
    v_busy      integer[] := '{}';
    v_absent    integer[] := '{}';
    v_now       timestamptz;
    v_plain     boolean;
    v_k         integer := 1;
    r           record;
begin
    select array_agg(q.id order by n.place), array_agg(p.id order by n.place),
           array_agg(greatest(q.delayed_processing, q.window_buffer)::double precision order by n.place),
           coalesce(bool_or(q.max_queue_size > 0), false), coalesce(bool_or(q.encryption_enabled), false)
      into v_queues, v_ids, v_delays, v_limited, v_sealed
      from unnest(p_queue, p_partition) with ordinality n(queue, partition, place)
      left join queen.queues q on q.name = n.queue
      left join queen.partitions p on p.queue_id = q.id and p.name = n.partition;

    if array_position(v_ids, null) is not null and not p_create then
        select array_agg(distinct coalesce(p_call[i], 1)) into v_absent
          from generate_subscripts(p_lane, 1) i where v_ids[p_lane[i]] is null;
    elsif array_position(v_ids, null) is not null then
        v_ids := queen.create_partitions(p_queue, p_partition);
        select array_agg(q.id order by n.place),
               array_agg(greatest(q.delayed_processing, q.window_buffer)::double precision order by n.place)
          into v_queues, v_delays
          from unnest(p_queue) with ordinality n(queue, place) join queen.queues q on q.name = n.queue;
    end if;
    if v_sealed then
        perform queen.require_sealed(p_queue, p_lane, p_encrypted);
    end if;
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        perform queen.guard_old_snapshot(v_queues, v_ids);
    end if;
    if v_limited then
        select f.calls, f.depth, f.queue_limit into v_full, v_full_depth, v_full_limit
          from queen.refuse_full(v_queues, p_lane, p_call) f;
        if cardinality(v_full) > 0 and p_call is null then
            return query select p_lane[i], i, 'full', v_ids[p_lane[i]], null::bigint, null::uuid, v_queues[p_lane[i]], false,
                                v_full_depth, v_full_limit
                           from generate_subscripts(p_id, 1) i;
            return;
        end if;
    end if;

    perform queen.announce();

    -- Lock by id; v_order says which lane the k-th smallest id is.
    select array_agg(n.place::integer order by n.id) into v_order
      from unnest(v_ids) with ordinality n(id, place) where n.id is not null;
    v_base := array_fill(null::bigint, array[v_lanes]);
    v_last := array_fill(null::timestamptz, array[v_lanes]);
    if p_wait then
        for r in select p.id, p.next_seq, p.last_created_at from queen.partitions p
                  where p.id = any (v_ids) order by p.id for no key update loop
            while v_ids[v_order[v_k]] < r.id loop v_k := v_k + 1; end loop;
            v_base[v_order[v_k]] := r.next_seq;
            v_last[v_order[v_k]] := r.last_created_at;
        end loop;
    else
        for r in select p.id, p.next_seq, p.last_created_at from queen.partitions p
                  where p.id = any (v_ids) order by p.id for no key update skip locked loop
            while v_ids[v_order[v_k]] < r.id loop v_k := v_k + 1; end loop;
            v_base[v_order[v_k]] := r.next_seq;
            v_last[v_order[v_k]] := r.last_created_at;
        end loop;
    end if;
    if array_position(v_base, null) is not null then
        if p_wait and cardinality(v_absent) = 0 then
            raise exception using errcode = '40001', message = 'a partition was deleted while it was written to; try again';
        end if;
        select coalesce(array_agg(distinct coalesce(p_call[i], 1)), '{}') into v_busy
          from generate_subscripts(p_lane, 1) i where v_base[p_lane[i]] is null and v_ids[p_lane[i]] is not null;
    end if;

    v_now := queen.clock();

    v_plain := not p_careful and p_deliver_at is null and cardinality(v_busy) = 0 and cardinality(v_full) = 0 and cardinality(v_absent) = 0;
    if v_plain and p_transaction_id is null then
        perform queen.insert_messages(p_lane, p_rank, p_id, p_payload, null, p_trace_id, p_parent_id, p_producer_sub, p_encrypted,
                                      v_ids, v_base, v_last, v_now);
    elsif v_plain and v_items < 16 then
        -- Few items: looking is cheaper than a subtransaction.
        v_plain := not exists (
            select from unnest(p_lane, p_transaction_id) i(lane, transaction_id)
              join queen.messages m on m.partition_id = v_ids[i.lane] and m.transaction_id = i.transaction_id);
        if v_plain then
            perform queen.insert_messages(p_lane, p_rank, p_id, p_payload, p_transaction_id, p_trace_id, p_parent_id, p_producer_sub,
                                          p_encrypted, v_ids, v_base, v_last, v_now);
        end if;
    elsif v_plain then
        begin
            perform queen.insert_messages(p_lane, p_rank, p_id, p_payload, p_transaction_id, p_trace_id, p_parent_id, p_producer_sub,
                                          p_encrypted, v_ids, v_base, v_last, v_now);
        exception when unique_violation then
            v_plain := false;  -- a duplicate somewhere: everything is taken back, go item by item
        end;
    end if;

    if v_plain then
        if v_lanes = 1 then
            v_counts := array[v_items];
        else
            select array_agg(c.n order by c.lane) into v_counts
              from (select l.lane, count(*) as n from unnest(p_lane) l(lane) group by l.lane) c;
        end if;
        v_woken := queen.raise_heads(v_ids, v_counts, v_delays, v_now);
        return query select l.place::integer, null::integer, 'queued', l.id, v_base[l.place], null::uuid, v_queues[l.place],
                            l.id = any (v_woken), null::bigint, null::bigint
                       from unnest(v_ids) with ordinality l(id, place);
        return;
    end if;

    return query select * from queen.push_items(
        p_lane, p_id, p_payload, p_transaction_id, p_trace_id, p_parent_id, p_deliver_at, p_producer_sub, p_encrypted, p_call,
        p_partition, v_queues, v_ids, v_base, v_last, v_delays, v_busy, v_absent, v_full, v_full_depth, v_full_limit, v_now);
end $$;
