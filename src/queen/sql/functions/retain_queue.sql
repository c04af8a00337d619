-- Promises: one portion of a queue's retention: looks at up to a thousand partitions whose oldest message is old enough, the oldest first,
--   after the place given (both null: from the start), and removes up to p_limit messages. Returns how many went, and where to go on
--   (null: nothing is due after that). With nothing due, one probe of an index. Groups that wait for their cursors (queen.settle_group)
--   get them, because nothing that was completed goes before: such a group may never pop again.
-- Locks: as queen.retain_partitions; those with nothing to remove are only read. As queen.settle_group.
create or replace function queen.retain_queue(
    p_queue_id bigint, p_after_at timestamptz, p_after_id bigint, p_limit integer,
    out handled bigint, out last_at timestamptz, out last_id bigint
) language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    v_now       timestamptz := queen.clock();
    v_aged      timestamptz;
    v_completed timestamptz;
    v_ids       bigint[];
    v_all       boolean;
    v_seen      bigint[];
    v_times     timestamptz[];
begin
    select v_now - make_interval(secs => nullif(q.retention_seconds, 0)),
           v_now - make_interval(secs => nullif(q.completed_retention_seconds, 0))
      into v_aged, v_completed from queen.queues q where q.id = p_queue_id and q.retention_enabled;
    if v_completed is not null then
        perform queen.settle_group(p_queue_id, s.consumer_group) from queen.subscriptions s
          where s.queue_id = p_queue_id and s.filled and not s.settled;
    end if;
    with seen as materialized (
        select p.id, p.oldest_at, p.last_created_at, p.next_seq - p.first_seq as kept, p.first_seq, case when p.oldest_at < v_completed then (
                   select min(c.last_consumed_seq) from queen.partition_consumers c where c.partition_id = p.id) end as passed
          from queen.partitions p
         where p.queue_id = p_queue_id and p.oldest_at < greatest(v_aged, v_completed)
           and (p.oldest_at, p.id) > (coalesce(p_after_at, '-infinity'), coalesce(p_after_id, 0))
         order by p.oldest_at, p.id limit 1000
    ), due as (
        -- Only so many are locked as the portion may hold; where some messages are too young, it counts as a quarter.
        select d.*, coalesce(sum(case when d.last_created_at < v_aged then d.kept else least(d.kept, greatest(p_limit / 4, 1)) end)
                             over (order by d.oldest_at, d.id rows between unbounded preceding and 1 preceding), 0) < p_limit as fits
          from seen d where d.oldest_at < v_aged or d.passed >= d.first_seq
    )
    select (select array_agg(s.oldest_at order by s.oldest_at, s.id) from seen s), (select array_agg(s.id order by s.oldest_at, s.id) from seen s),
           coalesce(bool_and(d.fits), true), array_agg(d.id order by d.oldest_at, d.id) filter (where d.fits)
      into v_times, v_seen, v_all, v_ids from due d;
    handled := case when v_ids is null then 0 else queen.retain_partitions(v_ids, p_limit) end;
    if handled >= p_limit then
        -- What was removed has moved on in this order by itself; from here there may be more.
        last_at := coalesce(p_after_at, '-infinity');
        last_id := coalesce(p_after_id, 0);
    elsif not v_all then
        last_id := v_ids[cardinality(v_ids)];
        last_at := v_times[array_position(v_seen, last_id)];
    elsif cardinality(v_seen) = 1000 then
        last_id := v_seen[1000];
        last_at := v_times[1000];
    end if;
end $$;
