-- Promises: adds the cursor rows of a registered group for the next p_chunk partitions; returns true while there are more. Safe to run
--   from several processes, and against pushes: a row is born with nothing waiting only if its partition lock was got and its head is
--   where the cursor is; otherwise it is looked at by the next pop (R5).
-- Locks: partition rows of the chunk with SKIP LOCKED; the subscription row.
create or replace function queen.fill_subscription(p_queue text, p_group text, p_chunk integer default 2000) returns boolean
language plpgsql volatile as $$
declare
    v_now   timestamptz;
    s       queen.subscriptions;
    v_ids   bigint[];
    v_held  bigint[];
begin
    select x.* into s from queen.subscriptions x join queen.queues q on q.id = x.queue_id
     where q.name = p_queue and x.consumer_group = p_group for no key update of x;
    if not found or s.filled then
        return false;
    end if;
    select array_agg(n.id order by n.id) into v_ids
      from (select p.id from queen.partitions p where p.queue_id = s.queue_id and p.id > s.filled_to order by p.id limit p_chunk) n;
    if v_ids is null then
        update queen.subscriptions set filled = true, head_partitions = null, head_seqs = null
         where queue_id = s.queue_id and consumer_group = p_group;
        return false;
    end if;
    select coalesce(array_agg(h.id), '{}') into v_held
      from (select id from queen.partitions where id = any (v_ids) order by id for no key update skip locked) h;
    v_now := queen.clock();
    insert into queen.partition_consumers (partition_id, queue_id, consumer_group, last_consumed_seq, ready_at, evict_at)
    select p.id, p.queue_id, p_group, start.seq,
           case when p.id = any (v_held) and p.next_seq = start.seq + 1 then null else v_now end,
           case when q.max_wait_time_seconds > 0 then v_now end
      from queen.partitions p
      join queen.queues q on q.id = p.queue_id
      left join unnest(s.head_partitions, s.head_seqs) h(id, seq) on h.id = p.id
     cross join lateral (select queen.start_seq(s, p, h.seq) as seq) start
     where p.id = any (v_ids)
        on conflict do nothing;
    update queen.subscriptions set filled_to = v_ids[cardinality(v_ids)]
     where queue_id = s.queue_id and consumer_group = p_group;
    return true;
end $$;
