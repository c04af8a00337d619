-- Promises: stores the items at the head of their lanes in the order given, so that pos grows with seq within a partition; raises
--   next_seq; makes lanes with nothing waiting ready after the queue's delay. All in one statement, whose snapshot is newer than the
--   partition locks (R1). Raises unique_violation on a transaction id that is already there. One row per lane.
--   Both updates are written so that no plan can be worse than a probe per lane, whatever the statistics say (R14): the partitions,
--   which the caller holds, by their place, which the lock fixed; the consumers, which may change meanwhile, by their key and without a join.
--   Arrays are unnested in the select list: in the from clause all rows would be kept aside first. Planned under the settings of
--   queen.push_messages.
-- Locks: consumer rows of the lanes where ready_at is null. The caller holds the partition rows.
create or replace function queen.store_messages(
    p_lane integer[], p_rank integer[], p_id uuid[], p_payload jsonb[], p_transaction_id text[], p_trace_id uuid[], p_parent_id uuid[],
    p_producer_sub text[], p_encrypted boolean[], p_queues bigint[], p_ids bigint[], p_delays double precision[], p_bases bigint[],
    p_times timestamptz[], p_places tid[], p_now timestamptz
) returns table (lane integer, item integer, status text, partition_id bigint, seq bigint, message_id uuid, queue_id bigint,
                 woken boolean, depth bigint, queue_limit bigint)
language plpgsql volatile as $$
begin
    return query
        with stored as (
            insert into queen.messages (partition_id, seq, pos, id, trace_id, parent_id, created_at, is_encrypted, transaction_id,
                                        producer_sub, payload)
            select p_ids[coalesce(i.lane, 1)], p_bases[coalesce(i.lane, 1)] + coalesce(i.rank, i.place - 1),
                   nextval('queen.message_pos'), i.id, i.trace_id, i.parent_id, greatest(p_now, p_times[coalesce(i.lane, 1)]),
                   coalesce(i.encrypted, false), i.transaction_id, i.producer_sub, coalesce(i.payload, 'null')
              from (select generate_subscripts(p_id, 1) as place, unnest(p_id) as id, unnest(p_payload) as payload, unnest(p_lane) as lane,
                           unnest(p_rank) as rank, unnest(p_transaction_id) as transaction_id, unnest(p_trace_id) as trace_id,
                           unnest(p_parent_id) as parent_id, unnest(p_producer_sub) as producer_sub, unnest(p_encrypted) as encrypted) i
        ), counts as materialized (
            select c.lane, count(*) as n from unnest(p_lane) c(lane) group by c.lane
            union all
            select 1, cardinality(p_id) where p_lane is null
        ), raised as (
            update queen.partitions p
               set next_seq = p.next_seq + c.n, last_created_at = greatest(p_now, p.last_created_at), last_activity = p_now,
                   oldest_at = coalesce(p.oldest_at, greatest(p_now, p.last_created_at)), idle_since = null
              from counts c
             where p.ctid = p_places[c.lane]
        ), roused as (
            update queen.partition_consumers pc
               set ready_at = p_now + make_interval(secs => p_delays[array_position(p_ids, pc.partition_id)]), idle_ms = 0
             where pc.partition_id = any (p_ids) and pc.ready_at is null
            returning array_position(p_ids, pc.partition_id) as lane
        )
        select c.lane, null::integer, 'queued', p_ids[c.lane], p_bases[c.lane], null::uuid, p_queues[c.lane],
               exists (select from roused r where r.lane = c.lane), null::bigint, null::bigint
          from counts c;
end $$;
