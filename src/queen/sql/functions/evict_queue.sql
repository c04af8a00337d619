-- Promises: one portion of a queue's eviction: dead-letters, as evicted, up to p_limit messages that waited longer than
--   max_wait_time_seconds, once per group for which they were still pending, the longest due first. Lanes with a live lease wait for
--   their lease to end. Returns how many messages, and last_at null once nothing is due any more; with nothing due, one probe of an
--   index. Where to go on needs no telling: what was looked at has its next time.
-- Locks: up to a hundred consumer rows with SKIP LOCKED, and partition rows only as queen.move_cursors.
create or replace function queen.evict_queue(
    p_queue_id bigint, p_after_at timestamptz, p_after_id bigint, p_limit integer,
    out handled bigint, out last_at timestamptz, out last_id bigint
) language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    q       queen.queues;
    v_now   timestamptz := queen.clock();
    v_seen  integer := 0;
    v_was   bigint;
    v_again timestamptz;
    c       record;
    e       record;
begin
    handled := 0;
    select * into q from queen.queues where id = p_queue_id and max_wait_time_seconds > 0;
    if not found then
        return;
    end if;
    for c in
        select pc.partition_id, pc.consumer_group, pc.last_consumed_seq, pc.lease_id, pc.lease_expires_at, pc.ready_at, p.first_seq
          from queen.partition_consumers pc
         cross join lateral (select x.first_seq from queen.partitions x where x.id = pc.partition_id limit 1) p
         where pc.queue_id = p_queue_id and pc.evict_at <= v_now
         order by pc.evict_at limit 100
           for no key update of pc skip locked
    loop
        v_seen := v_seen + 1;
        v_again := null;
        if c.lease_id is not null and c.lease_expires_at > v_now then
            v_again := c.lease_expires_at;
        elsif c.ready_at is not null then
            v_was := greatest(c.last_consumed_seq + 1, c.first_seq);
            e := queen.evict_lane(q, c.partition_id, c.consumer_group, v_was, (p_limit - handled)::integer, v_now);
            if e.next_seq > v_was then
                handled := handled + e.next_seq - v_was;
                perform from queen.move_cursors(array[c.partition_id], array[c.consumer_group], null, array[e.next_seq - 1],
                                                p_outcome => 'expired', p_acked => false, p_failed => e.dead);
            end if;
            select m.created_at + make_interval(secs => q.max_wait_time_seconds) into v_again
              from queen.partition_consumers pc
             cross join lateral (select x.created_at from queen.messages x where x.partition_id = pc.partition_id
                                    and x.seq > pc.last_consumed_seq order by x.seq limit 1) m
             where pc.partition_id = c.partition_id and pc.consumer_group = c.consumer_group and pc.ready_at is not null;
        end if;
        update queen.partition_consumers pc set evict_at = v_again
         where pc.partition_id = c.partition_id and pc.consumer_group = c.consumer_group;
        exit when handled >= p_limit;
    end loop;
    if v_seen = 100 or handled >= p_limit then
        last_at := v_now;
    end if;
end $$;
