-- Promises: hands out waiting messages of one queue to one group, for one or more requests of the same shape. Each request i gets up to
--   p_batch[i] messages from up to p_partitions[i] partitions under the lease p_lease[i]; the partition that has been ready longest
--   comes first (I2: a partition with a live lease is never handed out again to the group). O(batch) at any depth (I6).
--   p_partition: only this one. p_lease_seconds null: the queue's. p_auto_ack: the cursor moves at once and no lease is kept.
--   p_prefetch: the batch is handed over one by one, so that its expiry counts as a delivery of its first message only (R17), and it
--   has a mebibyte of payloads at most. p_bytes: each request gets payloads of at most so many bytes, or one message.
--   What failed or expired together comes again together: a batch with counts above zero ends where they do.
--   p_mark: a ready_at below which this caller found nothing lately; a hint that spares walking dead index entries.
--   The first row (request 0) says how it went: state ok | absent | paused | unregistered | again (gave up on stale candidates, ask
--   again at once: R12), next_ready_at when nothing more is ready now, mark for the next call, the queue's id as partition_id and the
--   time as started_at. Then one row per lane with its messages as arrays (cheapest to send and to read); seqs is null when they are
--   first_seq, first_seq + 1, ...; an array of optional values is null when all of them are.
-- Locks: consumer rows with SKIP LOCKED; partition rows only with SKIP LOCKED, to decide that a lane is drained (R2).
create or replace function queen.pop_lanes(
    p_queue text, p_group text, p_batch integer[], p_partitions integer[], p_lease uuid[],
    p_partition text default null, p_lease_seconds integer default null, p_auto_ack boolean default false,
    p_mark timestamptz default null, p_prefetch boolean default false, p_bytes bigint default null
) returns table (request integer, state text, next_ready_at timestamptz, mark timestamptz, started_at timestamptz,
                 lease_expires_at timestamptz, partition_id bigint, partition_name text, retry_count integer, delivery_count integer,
                 first_seq bigint, seqs bigint[], message_ids uuid[], payloads jsonb[], created_ats timestamptz[],
                 transaction_ids text[], trace_ids uuid[], parent_ids uuid[], encrypted boolean[], producer_subs text[])
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    q          record;  -- the queue: its row, whether the group is known, whether nothing but leases hides its work
    t          record;  -- what is handed out, arrays by lane: req, ids, names, first, last, retries, deliveries, skips
    v_now      timestamptz;
    v_expires  timestamptz;
    v_lanes    integer;
begin
    select qq.id, qq as config, qq.paused, coalesce(s.filled, false) as filled, not s.settled as unsettled,
           qq.delayed_processing = 0 and qq.window_buffer = 0 and qq.max_wait_time_seconds = 0 and qq.max_deliveries = 0
           and not (qq.retention_enabled and qq.retention_seconds > 0) as plain,
           queen.clock() as now, s.used_at < queen.clock() - interval '1 hour' as unseen,
           make_interval(secs => coalesce(p_lease_seconds, nullif(qq.lease_time, 0), 60)) as lease
      into q
      from queen.queues qq left join queen.subscriptions s on s.queue_id = qq.id and s.consumer_group = p_group
     where qq.name = p_queue;
    if q.id is null or q.paused or not q.filled or q.unseen or q.unsettled then
        if q.unseen then
            update queen.subscriptions s set used_at = q.now
             where s.ctid = (select x.ctid from queen.subscriptions x where x.queue_id = q.id and x.consumer_group = p_group
                                for no key update skip locked);
        end if;
        if q.id is null or q.paused or not q.filled then
            request := 0;
            state := case when q.id is null then 'absent' when not q.filled then 'unregistered' else 'paused' end;
            mark := p_mark;
            partition_id := q.id;
            return next;
            return;
        end if;
        if q.unsettled then
            perform queen.settle_group(q.id, p_group);
            q.now := queen.clock();
        end if;
    end if;
    v_now := q.now;
    v_expires := v_now + q.lease;

    if q.plain and p_partition is null and 1 = all (p_partitions) then
        -- The common case in one statement: the k-th ready lane goes to the k-th request.
        with ready as materialized (
            select c.ctid as place, c.partition_id as id, c.ready_at, c.lease_id, p.name, p.first_seq, p.next_seq, p.has_skips,
                   c.last_consumed_seq + 1 as first, case when c.counted_to > c.last_consumed_seq then c.counted_to + 1 end as again
              from queen.partition_consumers c
             cross join lateral (select x.* from queen.partitions x where x.id = c.partition_id limit 1) p
             where c.queue_id = q.id and c.consumer_group = p_group and c.ready_at >= coalesce(p_mark, '-infinity') and c.ready_at <= v_now
             order by c.ready_at
             limit cardinality(p_batch)
               for no key update of c skip locked
        ), matched as (
            select r.*, (row_number() over (order by r.ready_at))::integer as req
              from ready r where r.next_seq > r.first and r.first_seq <= r.first and r.lease_id is null and not r.has_skips
        ), taken as (
            update queen.partition_consumers pc
               set lease_id = p_lease[m.req], lease_expires_at = v_expires, lease_acquired_at = v_now, ready_at = v_expires,
                   batch_from = m.first, batch_to = least(m.next_seq, m.first + p_batch[m.req], m.again) - 1, idle_ms = 0,
                   counted_to = case when p_prefetch then m.first else least(m.next_seq, m.first + p_batch[m.req], m.again) - 1 end,
                   total_messages_delivered = pc.total_messages_delivered + least(m.next_seq, m.first + p_batch[m.req], m.again) - m.first
              from matched m
             where pc.ctid = m.place  -- one row each, whatever the statistics say (R14); one that changed meanwhile is left for the next round
            returning m.req, m.id, m.name, m.ready_at, pc.batch_from, pc.batch_to, pc.retry_count, pc.delivery_count
        )
        select array_agg(x.req) as req, array_agg(x.id) as ids, array_agg(x.name) as names, array_agg(x.batch_from) as first,
               array_agg(x.batch_to) as last, array_agg(x.retry_count) as retries, array_agg(x.delivery_count) as deliveries,
               array_agg(false) as skips, min(x.ready_at) as mark, null::timestamptz as next_ready_at, 'ok' as state
          into t from taken x;
        if t.req is null or cardinality(t.req) < cardinality(p_batch) then
            t := queen.pop_further(q.config, p_group, p_batch, p_partitions, p_lease, null, p_mark, p_prefetch, v_now, v_expires, t.req, t.ids,
                                   t.names, t.first, t.last, t.retries, t.deliveries, t.skips, t.mark);
        end if;
    else
        t := queen.pop_further(q.config, p_group, p_batch, p_partitions, p_lease, p_partition, p_mark, p_prefetch, v_now, v_expires);
    end if;

    request := 0;
    state := t.state;
    next_ready_at := t.next_ready_at;
    mark := t.mark;
    started_at := v_now;
    lease_expires_at := v_expires;
    partition_id := q.id;
    return next;
    if t.req is null then
        return;
    end if;
    if p_prefetch or (p_bytes is not null and 1 < any (p_batch)) then
        t.last := queen.cut_batches(t.req, t.ids, p_group, p_lease, t.first, t.last, least(p_bytes, case when p_prefetch then 1048576 end));
        if array_position(t.last, null) is not null then
            select array_agg(l.req order by l.place), array_agg(l.id order by l.place), array_agg(l.name order by l.place),
                   array_agg(l.from_seq order by l.place), array_agg(l.to_seq order by l.place), array_agg(l.retry order by l.place),
                   array_agg(l.delivery order by l.place), array_agg(l.skips order by l.place)
              into t.req, t.ids, t.names, t.first, t.last, t.retries, t.deliveries, t.skips
              from unnest(t.req, t.ids, t.names, t.first, t.last, t.retries, t.deliveries, t.skips) with ordinality
                   l(req, id, name, from_seq, to_seq, retry, delivery, skips, place)
             where l.to_seq is not null;
        end if;
    end if;
    if 1 = all (p_batch) then
        -- One message per lane needs no aggregates, which are most of what a lane costs.
        return query
            select l.req, null::text, null::timestamptz, null::timestamptz, null::timestamptz, v_expires, l.id, l.name, l.retry,
                   l.delivery, l.from_seq, null::bigint[], array[m.id], array[m.payload], array[m.created_at],
                   case when m.transaction_id is not null then array[m.transaction_id] end,
                   case when m.trace_id is not null then array[m.trace_id] end,
                   case when m.parent_id is not null then array[m.parent_id] end,
                   case when m.is_encrypted then array[true] end,
                   case when m.producer_sub is not null then array[m.producer_sub] end
              from unnest(t.req, t.ids, t.names, t.first, t.retries, t.deliveries) l(req, id, name, from_seq, retry, delivery)
             cross join lateral (select x.* from queen.messages x where x.partition_id = l.id and x.seq = l.from_seq limit 1) m;
    else
        return query
            select l.req, null::text, null::timestamptz, null::timestamptz, null::timestamptz, v_expires, l.id, l.name, l.retry, l.delivery,
                   l.from_seq, x.seqs, x.ids, x.payloads, x.times, x.transactions, x.traces, x.parents, x.sealed, x.subs
              from unnest(t.req, t.ids, t.names, t.first, t.last, t.retries, t.deliveries, t.skips) with ordinality
                   l(req, id, name, from_seq, to_seq, retry, delivery, skips, place)
             cross join lateral (
                select case when l.skips or count(*) <= l.to_seq - l.from_seq then array_agg(m.seq) end as seqs,
                       array_agg(m.id) as ids, array_agg(m.payload) as payloads, array_agg(m.created_at) as times,
                       case when count(m.transaction_id) > 0 then array_agg(m.transaction_id) end as transactions,
                       case when count(m.trace_id) > 0 then array_agg(m.trace_id) end as traces,
                       case when count(m.parent_id) > 0 then array_agg(m.parent_id) end as parents,
                       case when bool_or(m.is_encrypted) then array_agg(m.is_encrypted) end as sealed,
                       case when count(m.producer_sub) > 0 then array_agg(m.producer_sub) end as subs
                  from (select y.* from queen.messages y
                         where y.partition_id = l.id and y.seq between l.from_seq and l.to_seq
                           and (not l.skips or not exists (select from queen.skips s where s.partition_id = y.partition_id
                                                              and s.seq = y.seq and s.consumer_group in ('*', p_group)))
                         order by y.seq) m
             ) x
             where x.ids is not null
             order by l.place;
    end if;
    get diagnostics v_lanes = row_count;
    if v_lanes < cardinality(t.req) then
        -- Retention or a hand took a whole batch away meanwhile: nobody got that lease, so it must not hide what comes after (R8).
        perform from unnest(t.ids, t.first, t.last) l(id, from_seq, to_seq)
          cross join lateral queen.move_cursors(array[l.id], array[p_group], null, array[l.to_seq], p_outcome => 'moved', p_acked => false)
          where not exists (select from queen.messages m where m.partition_id = l.id and m.seq between l.from_seq and l.to_seq);
    end if;
    if p_auto_ack then
        perform from queen.ack_leases(t.ids, array_fill(p_group, array[cardinality(t.ids)]),
            (select array_agg(p_lease[r.req] order by r.place) from unnest(t.req) with ordinality r(req, place)), t.last);
    end if;
end $$;
