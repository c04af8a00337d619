-- Promises: pushes dead letters again as new messages (new transaction id, parent_id = the original); the dead-letter row keeps both. In
--   its own queue a message is for the group that failed: every other known group skips it, unless p_to_all; in another queue
--   (p_to_queue) it is for everyone. A group that is gone gets nothing back: its dead letters stay, without p_to_all. Selection by ids, or by queue, group, error text and time; rows already redriven are left out; of more
--   than p_limit the oldest, so that portions keep the order.
--   p_payload: instead of the stored one (a single id). Returns the number matching; p_dry_run: nothing else happens.
--   Each is looked at once, whatever the statistics say (R14).
-- Locks: dead-letter rows by id (SKIP LOCKED), then as queen.push_messages.
create or replace function queen.redrive(
    p_ids bigint[] default null, p_queue text default null, p_group text default null, p_error text default null,
    p_before timestamptz default null, p_to_queue text default null, p_payload jsonb default null, p_limit integer default 1000,
    p_dry_run boolean default false, p_to_all boolean default false
) returns table (matched bigint, redriven bigint, queue_ids bigint[])
language plpgsql volatile
set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
declare
    v_ids    bigint[];
    v_queues bigint[] := '{}';
    t        record;  -- what is pushed, arrays: the lanes by name, the items by lane and rank
    r        record;  -- how that went: the seqs of the items, the queues
begin
    if p_dry_run then
        return query select count(*), 0::bigint, v_queues
                       from queen.select_dead_letters(p_ids, p_queue, p_group, p_error, p_before, null, false) s where s.redriven_at is null;
        return;
    end if;
    select coalesce(array_agg(x.id order by x.id), '{}') into v_ids
      from (select dl.id from queen.dead_letter_queue dl
             where dl.id = any (array(select s.id from queen.select_dead_letters(p_ids, p_queue, p_group, p_error, p_before, null, false) s))
               and dl.redriven_at is null
             order by dl.id limit p_limit for update skip locked) x;
    with letters as materialized (
        select dl.*, coalesce(p_to_queue, q.name) as queue_name, p.name as partition_name, queen.uuid7() as fresh,
               dense_rank() over (order by coalesce(p_to_queue, q.name), p.name)::integer as lane
          from queen.dead_letter_queue dl
          join queen.queues q on q.id = dl.queue_id
          join queen.partitions p on p.id = dl.partition_id
         where dl.id = any (v_ids)
           and (p_to_all or p_to_queue <> q.name or exists (
                select from queen.subscriptions s where s.queue_id = dl.queue_id and s.consumer_group = dl.consumer_group))
    ), items as (
        select l.*, (row_number() over (partition by l.lane order by l.partition_id, l.seq, l.id) - 1)::integer as rank from letters l
    )
    select array_agg(i.queue_name order by i.lane) filter (where i.rank = 0) as queues,
           array_agg(i.partition_name order by i.lane) filter (where i.rank = 0) as partitions,
           array_agg(i.lane order by i.lane, i.rank) as lanes, array_agg(i.rank order by i.lane, i.rank) as ranks,
           array_agg(i.fresh order by i.lane, i.rank) as fresh, array_agg(coalesce(p_payload, i.payload) order by i.lane, i.rank) as payloads,
           array_agg(i.trace_id order by i.lane, i.rank) as traces, array_agg(i.message_id order by i.lane, i.rank) as parents,
           array_agg(i.producer_sub order by i.lane, i.rank) as producers,
           array_agg(i.is_encrypted and p_payload is null order by i.lane, i.rank) as encrypted,
           array_agg(i.id order by i.lane, i.rank) as letters, coalesce(cardinality(array_agg(i.id)), 0)::bigint as n
      into t from items i;
    if t.n > 0 then
        with pushed as materialized (
            select * from queen.push_messages(t.queues, t.partitions, t.lanes, t.ranks, t.fresh, t.payloads, null, t.traces, t.parents, null,
                                              t.producers, t.encrypted)
        )
        select array_agg(x.seq order by i.item) as seqs, array_agg(x.partition_id order by i.item) as partitions,
               array_agg(distinct x.queue_id) as queues, max(t.queues[i.lane]) filter (where x.status = 'full') as full_queue,
               max(x.depth) filter (where x.status = 'full') as depth, max(x.queue_limit) filter (where x.status = 'full') as queue_limit
          into r
          from unnest(t.lanes, t.ranks) with ordinality i(lane, rank, item)
         cross join lateral (
            select p.seq + case when p.item is null then i.rank else 0 end as seq, p.partition_id, p.queue_id, p.status, p.depth, p.queue_limit
              from pushed p where p.item = i.item or (p.item is null and p.lane = i.lane and p.status <> 'depth')) x;
        if r.full_queue is not null then
            perform queen.raise_full(r.full_queue, r.depth, r.queue_limit);
        end if;
        v_queues := r.queues;
        if not p_to_all then
            with skipped as (
                insert into queen.skips (partition_id, consumer_group, seq)
                select dl.partition_id, s.consumer_group, n.seq
                  from unnest(t.letters, r.partitions, r.seqs) n(id, partition_id, seq)
                  join queen.dead_letter_queue dl on dl.id = n.id and dl.partition_id = n.partition_id
                  join queen.subscriptions s on s.queue_id = dl.queue_id and s.consumer_group <> dl.consumer_group
                returning partition_id
            )
            update queen.partitions p set has_skips = true from (select distinct partition_id from skipped) k where p.id = k.partition_id;
        end if;
        update queen.dead_letter_queue dl set redriven_at = queen.clock(), redriven_as = n.fresh
          from unnest(t.letters, t.fresh) n(id, fresh) where dl.id = n.id;
    end if;
    return query select cardinality(v_ids)::bigint, t.n, v_queues;
end $$;
