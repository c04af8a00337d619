-- Promises: acknowledges single messages by transaction id (or seq), each completed | failed | dlq | retry, as in the table of outcomes
--   in docs/concepts: decided once per (call, partition, group). A stale token refuses its item and changes nothing; no token (older
--   clients) may only move the cursor forward. A lease reaches no further than its batch, and nothing further than the head: such
--   messages are unknown. p_at_once (transactions): failed dead-letters without spending retries.
--   Per item: status acked | noop | lost | unknown | committed | busy | invalid, whether its lease was released and whether it became a
--   dead letter. p_wait false: lanes someone else holds are 'busy' (R6).
-- Locks: where something may become a dead letter the queue and the partition (queen.keep_partition); consumer rows by (partition,
--   group); partition rows only with SKIP LOCKED (R2).
create or replace function queen.ack_messages(
    p_call integer[], p_partition bigint[], p_group text[], p_lease uuid[], p_transaction_id text[], p_seq bigint[], p_status text[],
    p_error text[], p_wait boolean default true, p_at_once boolean default false
) returns table (item integer, status text, released boolean, dead boolean, queue_id bigint, queue_name text, partition_name text)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off as $$
declare
    v_n        integer := cardinality(p_partition);
    v_seq      bigint[];
    v_status   text[] := array_fill(null::text, array[v_n]);
    v_released boolean[] := array_fill(false, array[v_n]);
    v_dead     boolean[] := array_fill(false, array[v_n]);
    v_queues   bigint[] := array_fill(null::bigint, array[v_n]);
    v_good     integer[];
    v_kept     boolean;
    v_at       bigint;
    i          integer;
    l          record;
    c          record;
    o          record;
begin
    for l in
        select n.id, n.name, array_agg(n.place::integer order by n.place) as items,
               bool_or(p_status[n.place] in ('failed', 'dlq')) as dying
          from unnest(p_partition, p_group, p_call) with ordinality n(id, name, call, place)
         group by n.id, n.name, n.call order by n.id, n.name, n.call
    loop
        v_kept := not l.dying or queen.keep_partition(l.id, p_wait);
        select x.* into c from queen.lock_lanes(array[l.id], array[l.name], p_wait) x where v_kept;
        if not found then
            foreach i in array l.items loop
                v_status[i] := case when p_wait or not exists (select from queen.partition_consumers pc
                                     where pc.partition_id = l.id and pc.consumer_group = l.name) then 'unknown' else 'busy' end;
            end loop;
            continue;
        end if;
        v_good := '{}';
        v_seq := '{}';
        foreach i in array l.items loop
            v_queues[i] := c.queue_id;
            if p_status[i] not in ('completed', 'failed', 'dlq', 'retry') then
                v_status[i] := 'invalid';
            elsif p_lease[i] is not null and (c.lease_id is null or c.lease_id <> p_lease[i]) then
                v_status[i] := 'lost';
            else
                v_at := coalesce(p_seq[i], queen.find_message(l.id, p_transaction_id[i], c.batch_from, c.batch_to));
                if v_at > (case when p_lease[i] is not null then c.batch_to else c.next_seq - 1 end) then
                    v_at := null;
                end if;
                v_seq := v_seq || v_at;
                v_good := v_good || i;
            end if;
        end loop;
        if cardinality(v_good) = 0 then
            continue;
        end if;
        for o in select * from queen.ack_lane(l.id, l.name, v_good, v_seq, p_status, p_error, p_lease, p_at_once) loop
            v_status[o.item] := o.status;
            v_dead[o.item] := o.dead;
            v_released[o.item] := o.released;
        end loop;
    end loop;
    return query
        select r.place::integer, r.status, r.released, r.dead, r.queue, q.name, p.name
          from unnest(v_status, v_released, v_dead, v_queues, p_partition) with ordinality r(status, released, dead, queue, id, place)
          left join queen.queues q on q.id = r.queue
          left join queen.partitions p on p.id = r.id;
end $$;
