-- Promises: applies their queue's retention to partitions, all of one queue: removes messages older than retention_seconds, consumed or
--   not, except inside a live lease; and messages older than completed_retention_seconds that every known group has passed (at least
--   one group must exist). With `archive` on, nothing is removed that is not in every lake yet (none there: nothing at all). At most
--   p_limit messages, in the order of the partitions given; returns how many went.
-- Locks: as queen.remove_ranges; consumer rows are only read.
create or replace function queen.retain_partitions(p_ids bigint[], p_limit integer default 10000) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    q           queen.queues;
    v_now       timestamptz;
    v_aged      timestamptz := '-infinity';
    v_completed timestamptz := '-infinity';
    v_archived  bigint;
    v_ids       bigint[];
    v_to        bigint[];
    v_by_age    bigint[];
begin
    select x.* into q from queen.queues x join queen.partitions p on p.queue_id = x.id where p.id = any (p_ids) limit 1;
    if not found or not q.retention_enabled then
        return 0;
    end if;
    v_now := queen.clock();
    if q.retention_seconds > 0 then
        v_aged := v_now - make_interval(secs => q.retention_seconds);
    end if;
    -- In this order: a group that registers in between is then seen by the second look, below.
    if q.completed_retention_seconds > 0
       and not exists (select from queen.subscriptions s where s.queue_id = q.id and not (s.filled and s.settled)) then
        v_completed := v_now - make_interval(secs => q.completed_retention_seconds);
    end if;
    if q.archive then
        select coalesce(min(a.pos), 0) into v_archived from queen.archive_positions a where a.source = 'messages';
    end if;
    with bounds as (
        select p.id, p.first_seq, i.place, aged.up_to as aged,
               least(greatest(aged.up_to, passed.up_to), case when q.archive then (
                   select m.seq - 1 from queen.messages m
                    where m.partition_id = p.id and m.seq >= p.first_seq and m.seq < p.first_seq + p_limit and m.pos >= v_archived
                    order by m.seq limit 1) end) as up_to
          from unnest(p_ids) with ordinality i(id, place)
         cross join lateral (select x.* from queen.partitions x where x.id = i.id limit 1) p
         cross join lateral (
            select min(c.last_consumed_seq) as passed,
                   min(c.last_consumed_seq) filter (where c.lease_id is not null and c.lease_expires_at > v_now) as leased
              from queen.partition_consumers c where c.partition_id = p.id) c
         cross join lateral (
            select least(case when p.last_created_at < v_aged then p.next_seq - 1
                              when p.oldest_at < v_aged then queen.seq_at(p.id, v_aged) else p.first_seq - 1 end, c.leased) as up_to) aged
         cross join lateral (
            select least(case when p.last_created_at < v_completed then p.next_seq - 1
                              when p.oldest_at < v_completed then queen.seq_at(p.id, v_completed) else p.first_seq - 1 end,
                         coalesce(c.passed, 0)) as up_to) passed
    ), portions as (
        select b.*, p_limit - coalesce(sum(b.up_to - b.first_seq + 1) over (order by b.place rows between unbounded preceding and 1 preceding), 0)
               as room
          from bounds b where b.up_to >= b.first_seq
    )
    select array_agg(x.id), array_agg(least(x.up_to, x.first_seq + x.room::bigint - 1)), array_agg(x.aged) into v_ids, v_to, v_by_age
      from portions x where x.room > 0;
    return case when v_ids is null then 0 else queen.remove_ranges(v_ids, v_to, v_by_age, v_now) end;
end $$;
