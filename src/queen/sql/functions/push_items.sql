-- Promises: the careful way of queen.push_messages: looks for each item before it is stored, and stores those that are new, in order, as
--   queen.store_messages does. The same transaction id twice in one partition: the first wins (R9). Items with a time to come are kept
--   aside. Items of calls that met a busy partition or a full queue are only reported. One row per item.
-- Locks: nothing more than the caller holds, and what queen.store_messages takes.
create or replace function queen.push_items(
    p_lane integer[], p_id uuid[], p_payload jsonb[], p_transaction_id text[], p_trace_id uuid[], p_parent_id uuid[],
    p_deliver_at timestamptz[], p_producer_sub text[], p_encrypted boolean[], p_call integer[], p_careful boolean, p_partition text[],
    p_queues bigint[], p_ids bigint[], p_delays double precision[], p_bases bigint[], p_times timestamptz[], p_places tid[],
    p_busy integer[], p_absent integer[], p_full integer[], p_depths bigint[], p_limits bigint[], p_now timestamptz
) returns table (lane integer, item integer, status text, partition_id bigint, seq bigint, message_id uuid, queue_id bigint,
                 woken boolean, depth bigint, queue_limit bigint)
language plpgsql volatile as $$
declare
    r       record;  -- the items in order, as arrays: lanes, statuses, ids, seqs
    n       record;  -- those to be stored: items, lanes, ranks
    v_woken integer[];
begin
    with sorted as (
        select i.place, coalesce(i.lane, 1) as lane, i.id, i.transaction_id, i.deliver_at,
               case when coalesce(i.call, 1) = any (p_full) then 'full' when coalesce(i.call, 1) = any (p_absent) then 'absent'
                    when coalesce(i.call, 1) = any (p_busy) then 'busy' end as refused
          from unnest(p_id, p_lane, p_transaction_id, p_deliver_at, p_call) with ordinality
               i(id, lane, transaction_id, deliver_at, call, place)
    ), known as (
        select distinct on (k.item) k.* from queen.find_known(p_lane, p_id, p_transaction_id, p_ids, p_careful, p_now) k order by k.item
    ), decided as (
        select s.*, k.seq as known_seq,
               coalesce(k.message_id, first_value(s.id) over (partition by s.lane, s.refused, coalesce(s.transaction_id, s.id::text)
                                                              order by s.place)) as first_id,
               row_number() over (partition by s.lane, s.refused, coalesce(s.transaction_id, s.id::text) order by s.place) as attempt
          from sorted s left join known k on k.item = s.place
    ), told as (
        select d.*, case when d.refused is not null then d.refused when d.known_seq is not null or d.attempt > 1 then 'duplicate'
                         when d.deliver_at > p_now then 'scheduled' else 'queued' end as status
          from decided d
    ), placed as (
        select t.*, t.known_seq is null and t.status = 'queued' as stored,
               p_bases[t.lane] + row_number() over (partition by t.lane, t.status order by t.place) - 1 as new_seq
          from told t
    ), numbered as (
        select p.*, first_value(coalesce(p.known_seq, case when p.stored then p.new_seq end))
                    over (partition by p.lane, p.refused, coalesce(p.transaction_id, p.id::text) order by p.place) as seq
          from placed p
    )
    select array_agg(p.lane order by p.place) as lanes, array_agg(p.status order by p.place) as statuses,
           array_agg(case when p.refused is null then p.first_id end order by p.place) as ids,
           array_agg(case when p.refused is null then p.seq end order by p.place) as seqs
      into r from numbered p;

    for i in 1 .. case when p_deliver_at is null then 0 else cardinality(p_id) end loop
        if r.statuses[i] = 'scheduled' then
            r.ids[i] := queen.schedule_message(p_queues[r.lanes[i]], p_partition[r.lanes[i]], p_deliver_at[i], p_id[i], p_transaction_id[i],
                p_trace_id[i], p_parent_id[i], p_payload[i], coalesce(p_encrypted[i], false), p_producer_sub[i], p_now);
            r.statuses[i] := case when r.ids[i] = p_id[i] then 'scheduled' else 'duplicate' end;
        end if;
    end loop;

    select array_agg(x.i order by x.i) as items, array_agg(r.lanes[x.i] order by x.i) as lanes,
           array_agg((r.seqs[x.i] - p_bases[r.lanes[x.i]])::integer order by x.i) as ranks
      into n from generate_subscripts(p_id, 1) x(i) where r.statuses[x.i] = 'queued';
    if n.items is not null then
        select array_agg(s.lane) filter (where s.woken) into v_woken
          from queen.store_messages(n.lanes, n.ranks, array(select p_id[i] from unnest(n.items) i),
                                    array(select p_payload[i] from unnest(n.items) i),
                                    case when p_transaction_id is not null then array(select p_transaction_id[i] from unnest(n.items) i) end,
                                    case when p_trace_id is not null then array(select p_trace_id[i] from unnest(n.items) i) end,
                                    case when p_parent_id is not null then array(select p_parent_id[i] from unnest(n.items) i) end,
                                    case when p_producer_sub is not null then array(select p_producer_sub[i] from unnest(n.items) i) end,
                                    case when p_encrypted is not null then array(select p_encrypted[i] from unnest(n.items) i) end,
                                    -- Partitions that get nothing are left out: nobody is to be woken there.
                                    p_queues, array(select case when l = any (n.lanes) then p_ids[l] end from generate_subscripts(p_ids, 1) l),
                                    p_delays, p_bases, p_times, p_places, p_now) s;
    end if;
    return query
        select r.lanes[x.i], x.i, r.statuses[x.i], p_ids[r.lanes[x.i]], r.seqs[x.i], coalesce(r.ids[x.i], p_id[x.i]), p_queues[r.lanes[x.i]],
               coalesce(r.lanes[x.i] = any (v_woken), false),
               p_depths[array_position(p_full, coalesce(p_call[x.i], 1))], p_limits[array_position(p_full, coalesce(p_call[x.i], 1))]
          from generate_subscripts(p_id, 1) x(i);
end $$;
