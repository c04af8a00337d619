-- Promises: pushes up to p_limit scheduled messages of a queue that are due, in the order they are due, after the place given (both null:
--   from the start), and removes them from the schedule in the same transaction. What is for a busy partition, or does not fit into a
--   full queue, is left for the next run. Returns how many were pushed, and where to go on (null: nothing more can be pushed now).
-- Locks: scheduled rows (SKIP LOCKED), then as queen.push_messages with p_wait false.
create or replace function queen.deliver_due(
    p_queue_id bigint, p_after_at timestamptz, p_after_id uuid, p_limit integer,
    out handled bigint, out last_at timestamptz, out last_id uuid
) language plpgsql volatile as $$
declare
    v_now   timestamptz := queen.clock();
    v_queue text;
    v_names text[];
    v_full  boolean;
    v_done  integer[];
    s       record;  -- the messages, partition by partition, as arrays
begin
    select name into v_queue from queen.queues where id = p_queue_id;
    with due as materialized (
        select m.* from queen.scheduled_messages m
         where m.queue_id = p_queue_id and m.deliver_at <= v_now
           and (m.deliver_at, m.id) > (coalesce(p_after_at, '-infinity'), coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
         order by m.deliver_at, m.id limit p_limit for update skip locked
    ), items as (
        select d.*, (dense_rank() over (order by d.partition_name))::integer as lane,
               (row_number() over (partition by d.partition_name order by d.deliver_at, d.id) - 1)::integer as rank
          from due d
    )
    select count(*) as n, array_agg(i.lane order by i.lane, i.rank) as lanes, array_agg(i.rank order by i.lane, i.rank) as ranks,
           array_agg(i.id order by i.lane, i.rank) as ids, array_agg(i.payload order by i.lane, i.rank) as payloads,
           case when count(i.transaction_id) > 0 then array_agg(i.transaction_id order by i.lane, i.rank) end as transactions,
           array_agg(i.trace_id order by i.lane, i.rank) as traces, array_agg(i.parent_id order by i.lane, i.rank) as parents,
           array_agg(i.producer_sub order by i.lane, i.rank) as subs, array_agg(i.is_encrypted order by i.lane, i.rank) as sealed,
           array_agg(i.partition_name order by i.lane) filter (where i.rank = 0) as names,
           max(i.deliver_at) as last_at, (array_agg(i.id order by i.deliver_at desc, i.id desc))[1] as last_id
      into s from items i;
    handled := 0;
    if s.n = 0 then
        return;
    end if;
    -- Each message is a call of its own: one that must wait does not hold up the others.
    select bool_or(r.status = 'full'),
           case when bool_or(r.item is null and r.status = 'queued') then array(select generate_subscripts(s.ids, 1))
                else array_agg(r.item) filter (where r.status in ('queued', 'duplicate')) end
      into v_full, v_done
      from queen.push_messages(array_fill(v_queue, array[cardinality(s.names)]), s.names, s.lanes, s.ranks, s.ids, s.payloads,
                               s.transactions, s.traces, s.parents, null, s.subs, s.sealed,
                               array(select generate_subscripts(s.ids, 1)), false) r
     where r.status <> 'depth';
    delete from queen.scheduled_messages m where m.id = any (select s.ids[i] from unnest(v_done) i);
    get diagnostics handled = row_count;
    if s.n = p_limit and not v_full then
        last_at := s.last_at;
        last_id := s.last_id;
    end if;
end $$;
