-- Promises: decides the outcome of one call's items on one lane and writes the lane once. Items in the order of their seq:
--   completed moves the cursor; dlq dead-letters and moves it; retry stops there and hands back, uncounted;
--   failed: with something completed in the same call it is dead-lettered at once (queues with partial_failure 'retry' stop there and
--   hand back, one retry); alone it spends one retry and hands back; with no retry left it is dead-lettered and the cursor passes it.
--   The retry count starts again with progress and after a dead letter.
-- Locks: nothing more than the caller holds (the consumer row), and what queen.decide_ready takes.
create or replace function queen.ack_lane(
    p_partition bigint, p_group text, p_items integer[], p_seqs bigint[], p_status text[], p_error text[], p_lease uuid[],
    p_at_once boolean
) returns table (item integer, status text, released boolean, dead boolean)
language plpgsql volatile as $$
declare
    v_now     timestamptz := queen.clock();
    q         queen.queues;
    c         queen.partition_consumers;
    d         record;
    r         record;
    v_cursor  bigint;
    v_retries integer;
    v_failed  integer := 0;
    v_passed  bigint := 0;
    v_dead    integer := 0;
    v_stop    boolean := false;
    v_back    boolean := false;      -- hand the rest back now
    v_delay   integer := 0;
    v_mixed   boolean;
    v_done    boolean;
    v_leased  boolean;
    v_kill    boolean;
    v_outcome text := 'completed';
    a_item integer[] := '{}'; a_status text[] := '{}'; a_dead boolean[] := '{}';
begin
    select * into c from queen.partition_consumers pc where pc.partition_id = p_partition and pc.consumer_group = p_group;
    select * into q from queen.queues where id = c.queue_id;
    v_cursor := c.last_consumed_seq;
    v_retries := c.retry_count;
    v_leased := c.lease_id is not null;
    select coalesce(bool_or(p_status[n.item] in ('completed', 'dlq')), false) and q.partial_failure = 'dlq' or p_at_once into v_mixed
      from unnest(p_items, p_seqs) n(item, seq) where n.seq > v_cursor;

    for r in select n.item, n.seq, p_status[n.item] as status, coalesce(p_error[n.item], '') as error
               from unnest(p_items, p_seqs) n(item, seq) order by n.seq nulls first, n.item loop
        a_item := a_item || r.item;
        a_dead := a_dead || false;
        v_kill := false;
        if r.seq is null then
            a_status := a_status || 'unknown'::text;
        elsif r.seq <= v_cursor then
            v_kill := r.status in ('failed', 'dlq') and v_leased and r.seq between c.batch_from and c.batch_to
                      and r.seq <= c.last_consumed_seq;
            a_status := a_status || case when r.status = 'completed' then 'noop' when v_kill then 'acked'
                                         when r.seq > c.last_consumed_seq then 'acked' else 'committed' end;
        elsif v_stop or (r.status <> 'completed' and not v_leased and p_lease[r.item] is null and not p_at_once and r.status <> 'dlq') then
            a_status := a_status || case when v_stop then 'acked' else 'lost' end;
        elsif r.status = 'retry' and p_at_once then
            a_status := a_status || 'invalid'::text;
        else
            a_status := a_status || 'acked'::text;
            if r.status = 'completed' then
                v_passed := v_passed + (r.seq - v_cursor);
                v_cursor := r.seq;
                v_retries := 0;
            elsif r.status = 'retry' then
                v_stop := true;
                v_back := true;
                v_outcome := 'retried';
            elsif r.status = 'dlq' or v_mixed or v_retries >= q.retry_limit then
                v_kill := true;
                v_cursor := r.seq;
                v_outcome := case when v_passed > 0 or v_mixed then 'partial' else 'failed' end;
            else
                v_stop := true;
                v_back := true;
                v_failed := v_failed + 1;
                v_retries := v_retries + 1;
                v_delay := q.retry_delay;
                v_outcome := 'failed';
            end if;
        end if;
        if v_kill and not exists (select from queen.dead_letter_queue x
                                   where x.partition_id = p_partition and x.seq = r.seq and x.consumer_group = p_group
                                     and r.seq <= c.last_consumed_seq) then
            v_dead := v_dead + queen.dead_letter(c.queue_id, p_partition, p_group, r.seq, r.seq, r.error, c.retry_count, false, v_now);
            a_dead[cardinality(a_dead)] := true;
        end if;
    end loop;
    -- All failed at the limit: decided once for the batch, so the count starts again only after the last of them.
    if v_dead > 0 and not v_back then
        v_retries := 0;
    end if;

    v_done := v_leased and (v_back or v_cursor >= c.batch_to or (p_at_once and v_dead > 0));
    if v_back then
        select v_now + make_interval(secs => v_delay / 1000.0) as ready_at, 0 as idle_ms, v_cursor as cursor into d;
    elsif v_done or not v_leased then
        d := queen.decide_ready(q, p_partition, v_cursor, c.idle_ms, v_now);
    else
        select c.ready_at as ready_at, c.idle_ms as idle_ms, v_cursor as cursor into d;
    end if;
    update queen.partition_consumers pc
       set last_consumed_seq = d.cursor, ready_at = d.ready_at, idle_ms = d.idle_ms, retry_count = v_retries,
           delivery_count = case when v_cursor > c.last_consumed_seq then 0 else pc.delivery_count end,
           last_consumed_at = case when v_cursor > c.last_consumed_seq then v_now else pc.last_consumed_at end,
           total_messages_consumed = pc.total_messages_consumed + v_passed,
           total_batches_consumed = pc.total_batches_consumed + case when v_done and not v_back then 1 else 0 end,
           total_messages_failed = pc.total_messages_failed + v_dead + v_failed,
           lease_id = case when not v_done then pc.lease_id end
     where pc.partition_id = p_partition and pc.consumer_group = p_group;
    if v_done and q.delivery_log then
        insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id,
                                      outcome, consumer_group)
        values (c.queue_id, p_partition, c.batch_from, c.batch_to, c.lease_acquired_at, v_now, c.retry_count, v_dead + v_failed,
                c.lease_id, v_outcome, p_group);
    end if;
    return query select x.item, x.status, v_done, x.dead from unnest(a_item, a_status, a_dead) x(item, status, dead);
end $$;
