-- Promises: stores the items of one or more calls in the order given, all or nothing per call; creates queues and partitions on first
--   use; seq is handed out under the partition's row lock, so seq order is commit order (I1); the same transaction id in the same
--   partition is stored once (I7); lanes with nothing waiting become ready.
--   Lanes: p_queue/p_partition, each pair once. Items: p_lane points into them (1-based, ascending), p_call says which call it belongs
--   to (null: one call), p_rank its place within its lane (0-based); both null: all items are of the one lane, in order. p_payload null array elements are JSON null.
--   p_wait false: a partition held by someone else makes its calls 'busy' instead of waiting (R6).
--   p_create false: calls that name a queue or partition that does not exist yet come back 'absent' (creating can wait for others).
--   p_ids: what the caller remembers as the partitions of its lanes, ascending; saves looking for them when it is right and neither
--   waiting nor creating is asked for.
--   p_careful: the caller retries after an unknown outcome: look for every item before storing it. false: the caller vouches that no
--   transaction id is one the server made up, which no index holds; null: see for yourself.
--   Returns one row per lane when everything was stored (item null, seq of its first item), otherwise one row per item:
--   queued, duplicate (with the first one's id), scheduled, busy, absent, full. woken: a group had nothing waiting there until now.
--   Last, for each limited queue, a row with status depth.
-- Locks: queue rows (R4, R5), credit slots of limited queues by queue id, partition rows by id, then consumer rows; with p_wait false
--   the credit comes after the partitions.
-- Few statements on purpose: every statement and expression of a function costs a set-up per transaction, which is most of what a
--   small push costs.
create or replace function queen.push_messages(
    p_queue text[], p_partition text[],
    p_lane integer[], p_rank integer[], p_id uuid[], p_payload jsonb[],
    p_transaction_id text[] default null, p_trace_id uuid[] default null, p_parent_id uuid[] default null,
    p_deliver_at timestamptz[] default null, p_producer_sub text[] default null, p_encrypted boolean[] default null,
    p_call integer[] default null, p_wait boolean default true, p_careful boolean default null, p_create boolean default true,
    p_ids bigint[] default null
) returns table (lane integer, item integer, status text, partition_id bigint, seq bigint, message_id uuid, queue_id bigint,
                 woken boolean, depth bigint, queue_limit bigint)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    -- The lanes in the order given.
    v_queues  bigint[];
    v_ids     bigint[];
    v_delays  double precision[];
    v_bases   bigint[];
    v_times   timestamptz[];
    v_places  tid[];
    v_limited boolean := false;
    v_hurried boolean := false;
    v_sealed  boolean;
    v_missing boolean;
    v_full    integer[];
    v_depths  bigint[];
    v_limits  bigint[];
    v_busy    integer[];
    v_absent  integer[];
    v_plain   boolean := p_careful is not true and p_deliver_at is null;
    v_old     boolean := current_setting('transaction_isolation') not in ('read committed', 'read uncommitted');
begin
    if p_ids is not null and not (p_wait or p_create or v_old) then
        select * into v_queues, v_ids, v_delays, v_bases, v_times, v_places from queen.lock_known_lanes(p_queue, p_partition, p_ids);
    end if;
    if v_ids is null then
        select * into v_queues, v_ids, v_delays, v_missing, v_limited, v_sealed, v_hurried from queen.find_lanes(p_queue, p_partition);
        if v_missing and not p_create then
            select array_agg(distinct coalesce(p_call[i], 1)) into v_absent
              from generate_subscripts(p_id, 1) i where v_ids[coalesce(p_lane[i], 1)] is null;
            v_plain := false;
        elsif v_missing then
            perform queen.create_partitions(p_queue, p_partition, p_wait);
            select * into v_queues, v_ids, v_delays, v_missing, v_limited, v_sealed, v_hurried from queen.find_lanes(p_queue, p_partition);
        end if;
        if v_sealed then
            perform queen.require_sealed(p_queue, p_id, p_lane, p_encrypted);
        end if;
        if v_old then
            perform queen.guard_old_snapshot(v_queues);
        end if;
        if v_limited and p_wait then
            select f.calls, f.depths, f.limits, v_plain and f.plain into v_full, v_depths, v_limits, v_plain
              from queen.refuse_full(v_queues, v_ids, p_id, p_lane, p_call, p_transaction_id, p_deliver_at, p_careful is true, true, '{}') f;
        end if;

        select * into v_bases, v_times, v_places, v_missing from queen.lock_heads(v_ids, p_wait);
        if v_missing then
            if p_wait and v_absent is null then
                raise exception using errcode = '40001', message = 'a partition was deleted while it was written to; try again';
            end if;
            -- Without a head: held by someone else, or being created by someone else.
            select array_agg(distinct coalesce(p_call[i], 1)) || v_busy into v_busy
              from generate_subscripts(p_id, 1) i
             where v_bases[coalesce(p_lane[i], 1)] is null and (p_create or v_ids[coalesce(p_lane[i], 1)] is not null);
            v_plain := v_plain and v_busy is null;
        end if;
        if v_limited and not p_wait then
            -- Nobody waits for credit here, so it may come after the partitions: those that are out take none.
            select f.calls, f.depths, f.limits, v_busy || f.busy, v_plain and f.plain into v_full, v_depths, v_limits, v_busy, v_plain
              from queen.refuse_full(v_queues, v_ids, p_id, p_lane, p_call, p_transaction_id, p_deliver_at, p_careful is true, false,
                                     coalesce(v_busy || v_absent, v_busy, v_absent, '{}')) f;
        end if;
    end if;
    if v_old then
        perform queen.guard_lanes(v_ids);
    end if;
    perform queen.announce();

    if v_plain and p_transaction_id is not null and p_careful is null then
        v_plain := not exists (select from unnest(p_transaction_id) t where substr(t, 15, 4) = '751e');
    end if;
    if v_plain and p_transaction_id is not null and cardinality(p_id) < 16 then
        -- Few items: looking is cheaper than a subtransaction.
        v_plain := not exists (
            select from unnest(p_transaction_id, p_lane) with ordinality i(transaction_id, lane, place)
             cross join lateral (select from queen.messages m where m.partition_id = v_ids[coalesce(i.lane, 1)]
                                    and m.transaction_id = i.transaction_id
                                 union all
                                 select from unnest(p_transaction_id[:i.place - 1], p_lane[:i.place - 1]) e(transaction_id, lane)
                                  where (e.transaction_id, coalesce(e.lane, 1)) = (i.transaction_id, coalesce(i.lane, 1))
                                  limit 1) known);
    end if;
    if v_plain and (p_transaction_id is null or cardinality(p_id) < 16) then
        return query select * from queen.store_messages(
            p_lane, p_rank, p_id, p_payload, p_transaction_id, p_trace_id, p_parent_id, p_producer_sub, p_encrypted,
            v_queues, v_ids, v_delays, v_bases, v_times, v_places, queen.clock());
    elsif v_plain then
        begin
            return query select * from queen.store_messages(
                p_lane, p_rank, p_id, p_payload, p_transaction_id, p_trace_id, p_parent_id, p_producer_sub, p_encrypted,
                v_queues, v_ids, v_delays, v_bases, v_times, v_places, queen.clock());
        exception when unique_violation then
            v_plain := false;  -- a duplicate somewhere: everything is taken back, look for it
        end;
    end if;
    if not v_plain then
        return query select * from queen.push_items(
            p_lane, p_id, p_payload, p_transaction_id, p_trace_id, p_parent_id, p_deliver_at, p_producer_sub, p_encrypted, p_call,
            p_careful is true, p_partition, v_queues, v_ids, v_delays, v_bases, v_times, v_places, coalesce(v_busy, '{}'),
            coalesce(v_absent, '{}'), coalesce(v_full, '{}'), v_depths, v_limits, queen.clock());
    end if;
    if v_hurried then
        perform queen.expect_eviction(v_ids);
    end if;
    if v_limited then
        return query select * from queen.push_depths(v_queues);
    end if;
end $$;
