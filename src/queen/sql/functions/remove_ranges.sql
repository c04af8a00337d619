-- Promises: removes the messages of each partition up to the seq given and moves first_seq there; what is left of a partition without
--   any message goes too. Writes the history: what lies up to p_aged went by age, the rest because every group had passed it. Returns
--   how many messages went. One statement with a probe per partition, whatever the statistics say (R14).
-- Locks: nothing more than the caller holds (the partition rows), and the partitions' rows of queen.removals.
create or replace function queen.remove_ranges(p_ids bigint[], p_to bigint[], p_aged bigint[], p_now timestamptz) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    v_removed bigint;
begin
    with portions as materialized (
        select p.id, p.queue_id, p.place, p.first_seq, p.next_seq, p.has_skips, r.up_to, n.aged, rest.created_at as rest
          from unnest(p_ids, p_to, p_aged) n(id, up_to, aged)
         cross join lateral (select x.*, x.ctid as place from queen.partitions x where x.id = n.id limit 1) p
         cross join lateral (select least(n.up_to, p.next_seq - 1) as up_to) r
          left join lateral (select m.created_at from queen.messages m
                              where m.partition_id = p.id and m.seq > r.up_to order by m.seq limit 1) rest on true
         where r.up_to >= p.first_seq
    ), gone as (
        delete from queen.messages m using portions x
         where m.partition_id = x.id and m.seq between x.first_seq and x.up_to
        returning m.partition_id, m.pos, m.seq <= x.aged as aged
    ), sums as materialized (
        select g.partition_id, count(*) as n, count(*) filter (where g.aged) as aged, max(g.pos) as pos from gone g group by 1
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
    ), noted as (
        insert into queen.removals as r (partition_id, queue_id, number, pos)
        select x.id, x.queue_id, nextval('queen.removal_number'), s.pos from sums s join portions x on x.id = s.partition_id
            on conflict (partition_id) do update set number = excluded.number, pos = greatest(r.pos, excluded.pos)
    ), history as (
        insert into queen.retention_history (queue_id, partition_id, retention_type, messages_removed, up_to_seq, executed_at)
        select x.queue_id, x.id, t.kind, t.n, least(x.up_to, t.up_to), p_now
          from sums s join portions x on x.id = s.partition_id
         cross join lateral (values ('retention', s.aged, x.aged), ('completed', s.n - s.aged, x.up_to)) t(kind, n, up_to)
         where t.n > 0
    )
    select coalesce(sum(s.n), 0) into v_removed from sums s;
    return v_removed;
end $$;
