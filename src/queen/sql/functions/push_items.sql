-- Promises: the careful way of queen.push_messages, item by item in order: looks for each transaction id (without one, for the message
--   id in the partition's tail, where an attempt of unknown outcome would have left it) before storing. Items of calls that met a
--   busy partition or a full queue are only reported.
-- Locks: nothing more than the caller holds, and what queen.raise_heads takes.
create or replace function queen.push_items(
    p_lane integer[], p_id uuid[], p_payload jsonb[], p_transaction_id text[], p_trace_id uuid[], p_parent_id uuid[],
    p_deliver_at timestamptz[], p_producer_sub text[], p_encrypted boolean[], p_call integer[], p_partition text[],
    p_queues bigint[], p_ids bigint[], p_base bigint[], p_last timestamptz[], p_delays double precision[],
    p_busy integer[], p_absent integer[], p_full integer[], p_full_depth bigint, p_full_limit bigint, p_now timestamptz
) returns table (lane integer, item integer, status text, partition_id bigint, seq bigint, message_id uuid, queue_id bigint,
                 woken boolean, depth bigint, queue_limit bigint)
language plpgsql volatile as $$
declare
    v_next   bigint[] := p_base;
    v_counts bigint[] := array_fill(0::bigint, array[cardinality(p_ids)]);
    v_rows   jsonb[] := '{}';
    v_lane   integer;
    v_seq    bigint;
    v_id     uuid;
    v_status text;
    v_woken  bigint[];
begin
    for i in 1 .. cardinality(p_id) loop
        v_lane := coalesce(p_lane[i], 1);
        v_seq := null;
        v_id := p_id[i];
        if coalesce(p_call[i], 1) = any (p_full) then
            v_status := 'full';
        elsif coalesce(p_call[i], 1) = any (p_absent) then
            v_status := 'absent';
        elsif coalesce(p_call[i], 1) = any (p_busy) then
            v_status := 'busy';
        else
            if p_transaction_id[i] is not null then
                select m.seq, m.id into v_seq, v_id from queen.messages m
                 where m.partition_id = p_ids[v_lane] and m.transaction_id = p_transaction_id[i];
            else
                select m.seq, m.id into v_seq, v_id from queen.messages m
                 where m.partition_id = p_ids[v_lane] and m.id = p_id[i]
                   and m.seq > queen.seq_at(p_ids[v_lane], least(queen.uuid7_time(p_id[i]), p_now) - interval '5 minutes')
                 limit 1;
            end if;
            if v_seq is not null then
                v_status := 'duplicate';
            elsif p_deliver_at[i] > p_now then
                v_id := queen.schedule_message(p_queues[v_lane], p_partition[v_lane], p_deliver_at[i], p_id[i], p_transaction_id[i],
                    p_trace_id[i], p_parent_id[i], p_payload[i], coalesce(p_encrypted[i], false), p_producer_sub[i], p_now);
                v_status := case when v_id = p_id[i] then 'scheduled' else 'duplicate' end;
            else
                v_status := 'queued';
                v_id := p_id[i];
                v_seq := v_next[v_lane];
                insert into queen.messages (partition_id, seq, pos, id, trace_id, parent_id, created_at, is_encrypted,
                                            transaction_id, producer_sub, payload)
                values (p_ids[v_lane], v_seq, nextval('queen.message_pos'), v_id, p_trace_id[i], p_parent_id[i],
                        greatest(p_now, p_last[v_lane]), coalesce(p_encrypted[i], false), p_transaction_id[i],
                        p_producer_sub[i], coalesce(p_payload[i], 'null'));
                v_next[v_lane] := v_seq + 1;
                v_counts[v_lane] := v_counts[v_lane] + 1;
            end if;
        end if;
        v_rows := v_rows || jsonb_build_object('status', v_status, 'seq', v_seq, 'id', v_id);
    end loop;

    v_woken := queen.raise_heads(p_ids, v_counts, p_delays, p_now);
    return query
        select r.lane, r.i::integer, r.j ->> 'status', p_ids[r.lane], (r.j ->> 'seq')::bigint, (r.j ->> 'id')::uuid,
               p_queues[r.lane], p_ids[r.lane] = any (v_woken),
               case when r.j ->> 'status' = 'full' then p_full_depth end, case when r.j ->> 'status' = 'full' then p_full_limit end
          from (select x.j, x.i, coalesce(p_lane[x.i], 1) as lane from unnest(v_rows) with ordinality x(j, i)) r;
end $$;
