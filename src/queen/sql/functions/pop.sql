-- Promises: hands out waiting messages of one queue to one group, for one or more requests of the same shape. Each request i gets up to
--   p_batch[i] messages from up to p_partitions[i] partitions under the lease p_lease[i]; the partition that has been ready longest
--   comes first (I2: a partition with a live lease is never handed out again to the group). O(batch) at any depth (I6).
--   p_partition: only this one. p_lease_seconds null: the queue's. p_auto_ack: the cursor moves at once and no lease is kept.
--   p_mark: a ready_at below which this caller found nothing lately; a hint that spares walking dead index entries.
--   The first row (request 0) says how it went: state ok | absent | paused | unregistered | again (gave up on stale candidates, ask
--   again at once: R12), next_ready_at when nothing more is ready now, mark for the next call, the queue's id as partition_id, the time as created_at. Then one row per message.
-- Locks: consumer rows with SKIP LOCKED; partition rows only with SKIP LOCKED, to decide that a lane is drained (R2).
create or replace function queen.pop(
    p_queue text, p_group text, p_batch integer[], p_partitions integer[], p_lease uuid[],
    p_partition text default null, p_lease_seconds integer default null, p_auto_ack boolean default false,
    p_mark timestamptz default null
) returns table (request integer, state text, next_ready_at timestamptz, mark timestamptz, partition_id bigint, partition_name text,
                 seq bigint, message_id uuid, transaction_id text, trace_id uuid, parent_id uuid, payload jsonb,
                 created_at timestamptz, is_encrypted boolean, producer_sub text, retry_count integer, delivery_count integer,
                 lease_expires_at timestamptz)
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    q          queen.queues;
    v_filled   boolean;
    v_only     bigint;
    v_now      timestamptz;
    v_expires  timestamptz;
    v_mark     timestamptz := coalesce(p_mark, '-infinity');
    v_first    timestamptz;
    v_plain    boolean;
    v_state    text := 'ok';
    v_next     timestamptz;
    v_requests integer := cardinality(p_batch);
    v_req      integer := 1;
    v_left     integer := p_batch[1];
    v_lanes    integer := p_partitions[1];
    v_wanted   integer;
    v_from     bigint;
    v_to       bigint;
    v_seen     integer;
    -- what is handed out, one entry per lane
    a_req integer[] := '{}'; a_id bigint[] := '{}'; a_name text[] := '{}'; a_from bigint[] := '{}'; a_to bigint[] := '{}';
    a_retry integer[] := '{}'; a_delivery integer[] := '{}'; a_skips boolean[] := '{}';
    c          record;
begin
    select qq.* into q from queen.queues qq where qq.name = p_queue;
    if not found then
        return query select 0, 'absent', null::timestamptz, p_mark, null::bigint, null::text, null::bigint, null::uuid, null::text,
            null::uuid, null::uuid, null::jsonb, null::timestamptz, null::boolean, null::text, null::integer, null::integer, null::timestamptz;
        return;
    end if;
    select s.filled into v_filled from queen.subscriptions s where s.queue_id = q.id and s.consumer_group = p_group;
    if not coalesce(v_filled, false) or q.paused then
        return query select 0, case when q.paused and v_filled then 'paused' else 'unregistered' end, null::timestamptz, p_mark, q.id,
            null::text, null::bigint, null::uuid, null::text, null::uuid, null::uuid, null::jsonb, null::timestamptz, null::boolean,
            null::text, null::integer, null::integer, null::timestamptz;
        return;
    end if;
    if p_partition is not null then
        select p.id into v_only from queen.partitions p where p.queue_id = q.id and p.name = p_partition;
        v_only := coalesce(v_only, -1);
    end if;
    v_plain := q.delayed_processing = 0 and q.window_buffer = 0 and q.max_wait_time_seconds = 0 and q.max_deliveries = 0
               and not (q.retention_enabled and q.retention_seconds > 0);

    for v_round in 1 .. 4 loop
        v_seen := 0;
        v_now := queen.clock();
        v_expires := v_now + make_interval(secs => coalesce(p_lease_seconds, nullif(q.lease_time, 0), 60));
        v_wanted := v_lanes + coalesce((select sum(n) from unnest(p_partitions[v_req + 1 :]) n), 0);
        for c in
            select * from queen.ready_lanes(q.id, p_group, v_only, v_mark, v_now, v_wanted)
        loop
            v_seen := v_seen + 1;
            v_first := coalesce(v_first, c.ready_at);
            v_from := greatest(c.cursor + 1, c.first_seq);
            v_to := c.next_seq - 1;
            if not v_plain or c.has_skips then
                select l.from_seq, l.to_seq into v_from, v_to
                  from queen.limit_lane(q, c.partition_id, p_group, v_from, v_to, c.lease_id, v_left, v_now) l;
            end if;
            if v_from > v_to or v_from is null then
                perform queen.settle_lane(q, c.partition_id, p_group, v_now);
                continue;
            end if;
            v_to := least(v_to, v_from + v_left - 1);
            a_req := a_req || v_req; a_id := a_id || c.partition_id; a_name := a_name || c.partition_name;
            a_from := a_from || v_from; a_to := a_to || v_to;
            a_retry := a_retry || c.retry_count; a_skips := a_skips || c.has_skips;
            a_delivery := a_delivery || (c.delivery_count + case when c.lease_id is null then 0 else 1 end);
            if c.lease_id is not null and q.delivery_log then
                insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                                              lease_id, outcome, consumer_group)
                values (q.id, c.partition_id, c.batch_from, c.batch_to, c.lease_acquired_at, v_now, c.retry_count, 0, c.lease_id,
                        'expired', p_group);
            end if;
            v_left := v_left - (v_to - v_from + 1)::integer;
            v_lanes := v_lanes - 1;
            if v_left = 0 or v_lanes = 0 then
                v_req := v_req + 1;
                exit when v_req > v_requests;
                v_left := p_batch[v_req];
                v_lanes := p_partitions[v_req];
            end if;
        end loop;

        if cardinality(a_id) > 0 then
            update queen.partition_consumers pc
               set lease_id = p_lease[l.req], lease_expires_at = v_expires, lease_acquired_at = v_now, ready_at = v_expires,
                   batch_from = l.from_seq, batch_to = l.to_seq, idle_ms = 0, delivery_count = l.delivery,
                   last_consumed_seq = greatest(pc.last_consumed_seq, l.from_seq - 1),
                   total_messages_delivered = pc.total_messages_delivered + (l.to_seq - l.from_seq + 1)
              from unnest(a_req, a_id, a_from, a_to, a_delivery) l(req, id, from_seq, to_seq, delivery)
             where pc.partition_id = l.id and pc.consumer_group = p_group
               and pc.lease_id is distinct from p_lease[l.req];
        end if;
        exit when v_req > v_requests or v_only is not null;
        -- A request that got something from fewer lanes than it may have is content; one that got nothing looks further.
        if cardinality(a_id) > 0 and a_req[cardinality(a_req)] = v_req then
            v_req := v_req + 1;
            exit when v_req > v_requests;
            v_left := p_batch[v_req];
            v_lanes := p_partitions[v_req];
        end if;
        if v_seen = 0 then
            exit when v_mark = '-infinity';
            v_mark := '-infinity';
        elsif v_round = 4 then
            v_state := 'again';
        end if;
    end loop;

    if v_req <= v_requests and v_state = 'ok' then
        if v_only is null then
            select pc.ready_at into v_next from queen.partition_consumers pc
             where pc.queue_id = q.id and pc.consumer_group = p_group and pc.ready_at > v_now
             order by pc.ready_at limit 1;
        else
            select pc.ready_at into v_next from queen.partition_consumers pc
             where pc.partition_id = v_only and pc.consumer_group = p_group;
        end if;
    end if;
    return query select 0, v_state, v_next, v_first, q.id, null::text, null::bigint, null::uuid, null::text,
        null::uuid, null::uuid, null::jsonb, v_now, null::boolean, null::text, null::integer, null::integer, v_expires;
    if cardinality(a_id) = 0 then
        return;
    end if;
    return query
        select l.req, null::text, null::timestamptz, null::timestamptz, m.partition_id, l.name, m.seq, m.id,
               coalesce(m.transaction_id, m.id::text), m.trace_id, m.parent_id, m.payload, m.created_at, m.is_encrypted, m.producer_sub,
               l.retry, l.delivery, v_expires
          from unnest(a_req, a_id, a_name, a_from, a_to, a_retry, a_delivery, a_skips) with ordinality
               l(req, id, name, from_seq, to_seq, retry, delivery, skips, place)
          join queen.messages m on m.partition_id = l.id and m.seq between l.from_seq and l.to_seq
         where not l.skips or not exists (
               select from queen.skips s where s.partition_id = m.partition_id and s.seq = m.seq and s.consumer_group in ('*', p_group))
         order by l.place, m.seq;
    if p_auto_ack then
        perform queen.ack_leases(a_id, array_fill(p_group, array[cardinality(a_id)]),
            (select array_agg(p_lease[r.req] order by r.place) from unnest(a_req) with ordinality r(req, place)), a_to);
    end if;
end $$;
