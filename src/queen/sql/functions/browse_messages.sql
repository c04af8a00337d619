-- Promises: a page of messages, newest first by (created_at, partition, seq), that match every filter given (null: any), without their
--   payloads. p_status pending | processing | completed | dead_letter: completed once every known group has passed it, processing
--   inside a live lease, dead_letter while a dead letter of it has not been redriven. p_at*: after this place (keyset).
--   Cost: the heads of the partitions, a few look-ups in those that may have one of the newest p_limit messages (with a status: in each
--   active since p_from), and p_limit messages of at most p_limit of them; never all messages.
--   Planned for each call: what a filter leaves out need not be looked at.
-- Locks: nothing.
create or replace function queen.browse_messages(
    p_queue text, p_partition text, p_namespace text, p_task text, p_status text, p_from timestamptz, p_to timestamptz, p_limit integer,
    p_at timestamptz default null, p_at_partition bigint default null, p_at_seq bigint default null
) returns table (partition_id bigint, seq bigint, message_id uuid, transaction_id text, trace_id uuid, producer_sub text,
                 created_at timestamptz, queue_name text, partition_name text, namespace text, task text, priority integer,
                 status text, queue_status text, consumed_by bigint, total_groups bigint, lease_expires_at timestamptz)
language plpgsql stable
set jit = off set plan_cache_mode = force_custom_plan as $$
declare
    v_now  timestamptz := queen.clock();
    v_till timestamptz := least(p_to, p_at);
begin
    return query
    with active as not materialized (
        select p.id, p.last_created_at, p.has_skips
          from queen.queues q
          join queen.partitions p on p.queue_id = q.id
         where (p_queue is null or q.name = p_queue) and (p_partition is null or p.name = p_partition)
           and (p_namespace is null or q.namespace = p_namespace) and (p_task is null or q.task = p_task)
           and p.next_seq > p.first_seq and p.last_created_at >= p_from and (v_till is null or p.created_at <= v_till)
    ), chosen as materialized (
        -- the newest message is as old as the head says, unless it was deleted by hand or lies behind the end of the page
        (select a.id from active a where a.last_created_at < coalesce(v_till, 'infinity') and not a.has_skips
          order by a.last_created_at desc, a.id desc limit case when p_status is null then p_limit end)
         union all
        select a.id from active a where a.has_skips
         union all
        select a.id from active a where v_till is not null and a.last_created_at >= v_till and not a.has_skips
    ), lanes as materialized (
        select p.id, p.name, p.first_seq, p.next_seq, p.last_created_at, q.name as queue_name, q.namespace, q.task, q.priority,
               coalesce(min(c.last_consumed_seq), 0) as slowest,
               max(c.last_consumed_seq) filter (where c.consumer_group = '__QUEUE_MODE__') as mode_cursor,
               array_agg(c.last_consumed_seq) filter (where c.consumer_group <> '__QUEUE_MODE__') as named,
               range_agg(l.range) filter (where c.consumer_group = '__QUEUE_MODE__') as mode_leased,
               range_agg(l.range) as leased,
               max(c.lease_expires_at) filter (where l.range is not null) as expires
          from chosen
          join queen.partitions p on p.id = chosen.id
          join queen.queues q on q.id = p.queue_id
          left join queen.partition_consumers c on c.partition_id = p.id
          -- the bounds are in order even where the condition does not hold: it may be looked at last
          left join lateral (select int8range(least(greatest(c.batch_from, c.last_consumed_seq + 1), c.batch_to + 1), c.batch_to + 1) as range
                              where c.lease_id is not null and c.lease_expires_at > v_now and c.batch_to > c.last_consumed_seq) l on true
         group by p.id, q.id
    ), bounds as (
        select l.*,
               greatest(l.first_seq, case p_status when 'pending' then l.slowest + 1 when 'processing' then lower(l.leased) end) as low,
               least(case p_status when 'completed' then l.slowest when 'processing' then upper(l.leased) - 1 end,
                     case when v_till is null then l.next_seq - 1
                          when p_at is null or p_to < p_at then
                              case when l.last_created_at <= p_to then l.next_seq - 1 else queen.seq_from_head(l.id, l.first_seq, l.next_seq, p_to, true) end
                          when l.id = p_at_partition then p_at_seq - 1
                          when l.last_created_at < p_at then l.next_seq - 1
                          else queen.seq_from_head(l.id, l.first_seq, l.next_seq, p_at, l.id < p_at_partition) end) as high
          from lanes l
         where p_status is distinct from 'processing' or l.leased is not null
    ), newest as (
        select b.*
          from bounds b
         cross join lateral (
            (select m.created_at from queen.messages m
              where p_status is distinct from 'dead_letter' and m.partition_id = b.id and m.seq between b.low and b.high
                and (p_status is null or queen.message_status(b.id, m.seq, b.slowest, b.leased) = p_status)
              order by m.seq desc limit 1)
            union all
            (select d.created_at from queen.dead_letter_queue d
              where p_status = 'dead_letter' and d.partition_id = b.id and d.seq between b.low and b.high and d.redriven_at is null
              order by d.seq desc limit 1)
         ) head
         where head.created_at >= p_from
         order by head.created_at desc, b.id desc
         limit p_limit
    )
    select n.id, m.seq, m.id, coalesce(m.transaction_id, m.id::text), m.trace_id, m.producer_sub, m.created_at, n.queue_name, n.name,
           n.namespace, n.task, n.priority, queen.message_status(n.id, m.seq, n.slowest, n.leased),
           case when n.mode_cursor >= m.seq then 'completed' when n.mode_leased @> m.seq then 'processing'
                when n.mode_cursor is not null then 'pending' end,
           (select count(*) from unnest(n.named) g where g >= m.seq), coalesce(cardinality(n.named), 0)::bigint,
           case when n.leased @> m.seq then n.expires end
      from newest n
     cross join lateral (select greatest(n.low, queen.seq_at(n.id, p_from) + 1) as low) since
     cross join lateral (
        (select x.* from queen.messages x
          where p_status is distinct from 'dead_letter' and x.partition_id = n.id and x.seq between since.low and n.high
            and (p_status is null or queen.message_status(n.id, x.seq, n.slowest, n.leased) = p_status)
          order by x.seq desc limit p_limit)
        union all
        (select x.* from (select distinct d.seq from queen.dead_letter_queue d
                           where p_status = 'dead_letter' and d.partition_id = n.id and d.seq between since.low and n.high
                             and d.redriven_at is null
                           order by d.seq desc limit p_limit) dead
           join queen.messages x on x.partition_id = n.id and x.seq = dead.seq)
     ) m
     order by m.created_at desc, n.id desc, m.seq desc
     limit p_limit;
end $$;
