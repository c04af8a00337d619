-- Promises: the thorough way of queen.pop, for requests that the first look did not satisfy, that may take several partitions, that name
--   one, or whose queue hides work in other ways than by leases: looks at lanes one by one, settles those that have nothing to hand
--   out, and goes on from what was handed out before (the arrays given). Returns the arrays with what was added, the mark, when
--   something becomes ready next if a request got nothing, and the state: ok, or again after too many stale candidates (R12).
--   Planned under the settings of queen.pop.
-- Locks: consumer rows with SKIP LOCKED; partition rows only with SKIP LOCKED, to decide that a lane is drained (R2).
create or replace function queen.pop_further(
    q queen.queues, p_group text, p_batch integer[], p_partitions integer[], p_lease uuid[], p_partition text, p_mark timestamptz,
    p_prefetch boolean,
    inout now timestamptz, inout expires timestamptz,
    inout req integer[] default null, inout ids bigint[] default null, inout names text[] default null, inout first bigint[] default null,
    inout last bigint[] default null, inout retries integer[] default null, inout deliveries integer[] default null,
    inout skips boolean[] default null, inout mark timestamptz default null, out next_ready_at timestamptz, out state text)
language plpgsql volatile as $$
#variable_conflict use_variable
declare
    v_plain    boolean := q.delayed_processing = 0 and q.window_buffer = 0 and q.max_wait_time_seconds = 0 and q.max_deliveries = 0
                          and not (q.retention_enabled and q.retention_seconds > 0);
    v_mark     timestamptz := coalesce(p_mark, '-infinity');
    v_only     bigint;
    v_requests integer := cardinality(p_batch);
    v_req      integer := coalesce(cardinality(req), 0) + 1;
    v_left     integer := p_batch[v_req];
    v_lanes    integer := p_partitions[v_req];
    v_new      integer := coalesce(cardinality(req), 0) + 1;
    v_seen     integer;
    v_from     bigint;
    v_to       bigint;
    v_same     boolean;
    c          record;
begin
    state := 'ok';
    if p_partition is not null then
        select p.id into v_only from queen.partitions p where p.queue_id = q.id and p.name = p_partition;
        v_only := coalesce(v_only, -1);
    end if;
    for v_round in 1 .. 4 loop
        v_seen := 0;
        for c in
            select * from queen.ready_lanes(q.id, p_group, v_only, v_mark, now,
                v_lanes + coalesce((select sum(n)::integer from unnest(p_partitions[v_req + 1 :]) n), 0))
        loop
            v_seen := v_seen + 1;
            mark := least(mark, c.ready_at);
            v_from := c.cursor + 1;
            v_to := c.next_seq - 1;
            if not v_plain or c.has_skips or v_from > v_to or c.first_seq > v_from then
                select l.from_seq, l.to_seq into v_from, v_to from queen.limit_lane(q, c.partition_id, p_group, v_left, now) l;
                continue when v_from > v_to;
            elsif c.counted_to >= v_from then
                v_to := least(v_to, c.counted_to);
            end if;
            v_to := least(v_to, v_from + v_left - 1);
            v_same := v_from = c.cursor + 1;  -- otherwise what was counted has been passed
            req := req || v_req; ids := ids || c.partition_id; names := names || c.partition_name;
            first := first || v_from; last := last || v_to; skips := skips || c.has_skips;
            retries := retries || case when v_same then c.retry_count else 0 end;
            deliveries := deliveries || case when v_same then c.delivery_count + (c.lease_id is not null and c.counted_to >= v_from)::integer
                                             else 0 end;
            if c.batch_to >= v_from and c.lease_id is not null and q.delivery_log then
                insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed,
                                              lease_id, outcome, consumer_group)
                values (q.id, c.partition_id, c.batch_from, c.batch_to, c.lease_acquired_at, now, c.retry_count, 0, c.lease_id,
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

        update queen.partition_consumers pc
           set lease_id = p_lease[l.req], lease_expires_at = expires, lease_acquired_at = now, ready_at = expires,
               batch_from = l.from_seq, batch_to = l.to_seq, idle_ms = 0, delivery_count = l.delivery,
               counted_to = case when p_prefetch then l.from_seq else l.to_seq end,
               total_messages_delivered = pc.total_messages_delivered + (l.to_seq - l.from_seq + 1)
          from unnest(req[v_new :], ids[v_new :], first[v_new :], last[v_new :], deliveries[v_new :])
               l(req, id, from_seq, to_seq, delivery)
         cross join lateral (select x.ctid as place from queen.partition_consumers x
                              where x.partition_id = l.id and x.consumer_group = p_group limit 1) locked
         where pc.ctid = locked.place;
        -- A request that got something from fewer lanes than it may have is content; one that got nothing looks further.
        if req[cardinality(req)] = v_req then
            v_req := v_req + 1;
            v_left := p_batch[v_req];
            v_lanes := p_partitions[v_req];
        end if;
        v_new := coalesce(cardinality(req), 0) + 1;
        exit when v_req > v_requests or v_only is not null;
        if v_seen = 0 then
            exit when v_mark = '-infinity';
            v_mark := '-infinity';
        elsif v_round = 4 then
            state := 'again';
        end if;
        now := queen.clock();
    end loop;

    if v_req <= v_requests and state = 'ok' then
        if v_only is null then
            select pc.ready_at into next_ready_at from queen.partition_consumers pc
             where pc.queue_id = q.id and pc.consumer_group = p_group and pc.ready_at > now
             order by pc.ready_at limit 1;
        else
            select pc.ready_at into next_ready_at from queen.partition_consumers pc
             where pc.partition_id = v_only and pc.consumer_group = p_group;
        end if;
    end if;
end $$;
