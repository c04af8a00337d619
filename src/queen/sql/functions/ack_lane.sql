-- Promises: decides the outcome of one call's items on one partition and moves the group's cursor once. In the order of their seq:
--   completed moves the cursor; dlq dead-letters and moves it; retry stops there and hands back, uncounted;
--   failed: with something completed in the same call it is dead-lettered at once (queues with partial_failure 'retry' stop there and
--   hand back); alone it stops there and hands back. What failed together in front of everything else spends one retry together and comes
--   again together, and only that: what was behind it starts its own count. With no retry left it is dead-lettered and passed. A failure
--   behind a message that nothing was said about hands back too, and the next batch ends before it, so that its own retries count.
--   p_at_once (transactions): failed dead-letters without spending retries.
--   A stale token refuses its item and changes nothing; no token (older clients) can only move the cursor forward: failed and retry are
--   lost. A lease reaches no further than its batch, and nothing further than the head: such messages are unknown.
-- Locks: nothing more than the caller holds (the consumer row), and what queen.move_cursors takes.
create or replace function queen.ack_lane(
    p_partition bigint, p_group text, p_items integer[], p_lease uuid[], p_names text[], p_seqs bigint[], p_status text[], p_error text[],
    p_at_once boolean
) returns table (item integer, status text, released boolean, dead boolean)
language plpgsql volatile as $$
declare
    v_now     timestamptz := queen.clock();
    q         queen.queues;
    c         queen.partition_consumers;
    v_head    bigint;
    v_skips   boolean;
    -- The items in the order of the partition. v_verdict null: decided by what comes before it. v_late: failed behind the cursor.
    v_items   integer[];
    v_seqs    bigint[];
    v_status  text[];
    v_error   text[];
    v_verdict text[];
    v_late    boolean[];
    v_cursor  bigint;
    v_retries integer;
    v_all     boolean;  -- whatever failed is dead-lettered
    v_run     bigint;
    v_seq     bigint;
    v_ready   timestamptz;  -- hand back what is left
    v_count   integer;
    v_counted bigint;
    v_front   bigint;
    v_holes   bigint := 0;
    v_outcome text := 'completed';
    v_last    bigint;
    v_dead    bigint;
    v_released boolean := false;
    r         record;
begin
    select * into c from queen.partition_consumers pc where pc.partition_id = p_partition and pc.consumer_group = p_group;
    select * into q from queen.queues where id = c.queue_id;
    select p.next_seq - 1, p.has_skips into v_head, v_skips from queen.partitions p where p.id = p_partition;
    v_cursor := c.last_consumed_seq;
    v_retries := c.retry_count;
    if array_position(p_seqs, null) is not null then
        select array_agg(coalesce(n.seq, n.found) order by n.place) into p_seqs
          from unnest(p_seqs, queen.find_messages(p_partition, p_names, c.batch_from, c.batch_to)) with ordinality n(seq, found, place);
    end if;
    select array_agg(x.item), array_agg(x.seq), array_agg(x.status), array_agg(x.error),
           array_agg(x.late and not x.again and not exists (
               select from queen.dead_letter_queue d
                where d.partition_id = p_partition and d.seq = x.seq and d.consumer_group = p_group)),
           array_agg(case
               when x.status not in ('completed', 'failed', 'dlq', 'retry') then 'invalid'
               when x.lease is not null and x.lease is distinct from c.lease_id then 'lost'
               when x.seq is null then 'unknown'
               when x.again or x.late then 'acked'
               when x.seq <= v_cursor then case x.status when 'completed' then 'noop' else 'committed' end
               when p_at_once then case x.status when 'retry' then 'invalid' end
               when x.lease is null and x.status in ('failed', 'retry') then 'lost' end)
      into v_items, v_seqs, v_status, v_error, v_late, v_verdict
      from (select i.item, f.seq, i.status, coalesce(i.error, '') as error, i.lease,
                   row_number() over (partition by f.seq order by i.item) > 1 as again,
                   i.status in ('failed', 'dlq') and c.lease_id = coalesce(i.lease, c.lease_id) and f.seq <= v_cursor
                       and f.seq between c.batch_from and c.batch_to as late
              from unnest(p_items, p_seqs, p_status, p_error, p_lease) i(item, seq, status, error, lease)
             cross join lateral (select case when i.seq <= case when i.lease is null then v_head else c.batch_to end then i.seq end as seq) f
             order by f.seq, i.item) x;

    v_all := p_at_once or q.partial_failure = 'dlq' and exists (
        select from unnest(v_status, v_verdict) n(status, verdict) where n.verdict is null and n.status in ('completed', 'dlq'));
    for r in
        select n.status, max(n.seq) as last, array_agg(n.seq order by n.seq) as seqs
          from (select x.seq, x.status, row_number() over (order by x.seq) - row_number() over (partition by x.status order by x.seq) as run
                  from unnest(v_seqs, v_status, v_verdict) x(seq, status, verdict) where x.verdict is null) n
         group by n.status, n.run order by min(n.seq)
    loop
        if r.status = 'retry' then
            v_ready := v_now;
            v_outcome := 'retried';
            exit;
        elsif r.status = 'failed' and not v_all then
            v_run := v_cursor;  -- the last of those in front, each right behind the one before
            foreach v_seq in array r.seqs loop
                exit when v_seq > v_run + 1 and queen.next_kept(p_partition, p_group, v_run + 1, v_seq - 1) is not null;
                v_run := v_seq;
            end loop;
            if v_retries >= q.retry_limit and v_run > v_cursor then
                v_cursor := case when q.retry_limit > 0 then least(v_run, c.counted_to) else v_run end;
                v_retries := 0;
            end if;
            if v_cursor < r.last then
                v_ready := v_now + make_interval(secs => q.retry_delay / 1000.0);
                v_outcome := 'failed';
                v_front := (select min(s) - 1 from unnest(r.seqs) s where s > v_cursor);
                if v_run > v_cursor then
                    v_count := v_retries + 1;
                    v_counted := v_run;
                    v_holes := v_front - v_cursor;
                    v_cursor := v_front;  -- what was deleted in front is passed now: a cursor that moves later would start the count again
                else
                    v_counted := v_front;
                end if;
                exit;
            end if;
        else
            v_cursor := r.last;
            v_retries := 0;
        end if;
    end loop;

    select coalesce(array_agg(n.seq order by n.seq), '{}') as seqs, array_agg(n.error order by n.seq) as errors,
           count(*) filter (where not n.late) as passed
      into r
      from unnest(v_seqs, v_status, v_error, v_verdict, v_late) n(seq, status, error, verdict, late)
     where n.late or (n.verdict is null and n.status in ('failed', 'dlq') and n.seq <= v_cursor);
    v_last := v_cursor;
    if v_ready is null then
        if r.passed > 0 then
            v_outcome := case when v_all or 'completed' = any (v_status) then 'partial' else 'failed' end;
        end if;
        -- What is left of the batch may have been deleted meanwhile.
        if v_skips and v_cursor < c.batch_to and c.lease_id = any (p_lease) and array_position(v_verdict, null) is not null
           and queen.next_kept(p_partition, p_group, v_cursor + 1, c.batch_to) is null then
            v_cursor := c.batch_to;
        end if;
    end if;
    if v_cursor > c.last_consumed_seq or v_ready is not null or cardinality(r.seqs) > 0 then
        v_dead := queen.dead_letter(c.queue_id, p_partition, p_group, r.seqs, r.errors, '', c.retry_count, false, v_now);
        select m.released into v_released
          from queen.move_cursors(
              array[p_partition], array[p_group], null, array[v_cursor], p_outcome => v_outcome,
              p_over => v_ready is not null or (p_at_once and v_dead > 0),
              p_ready => v_ready, p_dead => r.passed + v_holes, p_failed => v_dead + (v_outcome = 'failed' and v_ready is not null)::integer,
              p_retries => v_count, p_counted_to => v_counted) m;
    end if;
    return query
        select n.item, coalesce(n.verdict, 'acked'), v_released and coalesce(n.verdict, '') not in ('lost', 'invalid'),
               n.late or (n.verdict is null and n.status in ('failed', 'dlq') and n.seq <= v_last)
          from unnest(v_items, v_seqs, v_status, v_verdict, v_late) n(item, seq, status, verdict, late);
end $$;
