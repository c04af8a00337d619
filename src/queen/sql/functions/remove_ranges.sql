-- Promises: removes the messages of each partition up to the seq given and moves first_seq there; what is left of a partition without
--   any message goes too. Writes the history: what lies up to p_aged went by age, the rest because every group had passed it. Returns
--   how many messages went. A partition that someone else holds, or that is gone, is left for the next time. Statements with a probe
--   per partition, whatever the statistics say (R14).
-- Locks: first the messages, which nobody waits for, then the partition rows by id (SKIP LOCKED: where one is held, the messages are
--   given back and the others removed without it), so that a push waits for the end of the work and not for all of it; and the
--   partitions' rows of queen.removals.
create or replace function queen.remove_ranges(p_ids bigint[], p_to bigint[], p_aged bigint[], p_now timestamptz) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan set lock_timeout = '100ms' as $$
declare
    v_free   bigint[] := p_ids;
    v_gone   bigint[];
    v_counts bigint[];
    v_by_age bigint[];
    v_last   bigint[];
begin
    loop
        begin
            with gone as (
                delete from queen.messages m
                 using unnest(p_ids, p_to, p_aged) n(id, up_to, aged)
                 cross join lateral (select p.first_seq, p.next_seq from queen.partitions p where p.id = n.id limit 1) p
                 where n.id = any (v_free) and m.partition_id = n.id and m.seq between p.first_seq and least(n.up_to, p.next_seq - 1)
                returning m.partition_id, m.pos, m.seq <= n.aged as aged
            )
            select array_agg(s.id), array_agg(s.n), array_agg(s.aged), array_agg(s.pos) into v_gone, v_counts, v_by_age, v_last
              from (select g.partition_id as id, count(*) as n, count(*) filter (where g.aged) as aged, max(g.pos) as pos
                      from gone g group by 1) s;
            select array_agg(h.id) into v_free
              from (select p.id from queen.partitions p where p.id = any (v_free) order by p.id for no key update skip locked) h;
            exit when v_gone <@ v_free or v_gone is null;
            raise exception using errcode = 'QN001';
        exception when sqlstate 'QN001' then
            null;
        end;
    end loop;
    with portions as materialized (
        select p.id, p.queue_id, p.place, p.has_skips, r.up_to, n.aged, rest.created_at as rest
          from unnest(p_ids, p_to, p_aged) n(id, up_to, aged)
         cross join lateral (select x.*, x.ctid as place from queen.partitions x where x.id = n.id limit 1) p
         cross join lateral (select least(n.up_to, p.next_seq - 1) as up_to) r
          left join lateral (select m.created_at from queen.messages m
                              where m.partition_id = p.id and m.seq > r.up_to order by m.seq limit 1) rest on true
         where n.id = any (v_free) and r.up_to >= p.first_seq
    ), unskipped as (
        delete from queen.skips s using portions x
         where x.has_skips and s.partition_id = x.id and (s.seq <= x.up_to or x.rest is null)
    ), moved as (
        update queen.partitions p
           set first_seq = case when x.rest is null then p.next_seq else x.up_to + 1 end, oldest_at = x.rest,
               idle_since = case when x.rest is null then p.last_activity end,
               has_skips = p.has_skips and x.rest is not null
                           and exists (select from queen.skips s where s.partition_id = p.id and s.seq > x.up_to)
          from portions x
         where p.ctid = x.place
    ), sums as (
        select x.id, x.queue_id, x.up_to, x.aged as aged_to, s.n, s.aged, s.pos
          from unnest(v_gone, v_counts, v_by_age, v_last) s(id, n, aged, pos) join portions x on x.id = s.id
    ), noted as (
        insert into queen.removals as r (partition_id, queue_id, number, pos)
        select s.id, s.queue_id, nextval('queen.removal_number'), s.pos from sums s
            on conflict (partition_id) do update set number = excluded.number, pos = greatest(r.pos, excluded.pos)
    )
    insert into queen.retention_history (queue_id, partition_id, retention_type, messages_removed, up_to_seq, executed_at)
    select s.queue_id, s.id, t.kind, t.n, least(s.up_to, t.up_to), p_now
      from sums s
     cross join lateral (values ('retention', s.aged, s.aged_to), ('completed', s.n - s.aged, s.up_to)) t(kind, n, up_to)
     where t.n > 0;
    return (select coalesce(sum(n), 0) from unnest(v_counts) n);
end $$;
