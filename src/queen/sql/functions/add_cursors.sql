-- Promises: adds the cursor rows of a registered group for partitions of its queue, where there are none. Safe against pushes: a row is
--   born with nothing waiting only if its partition lock was got and its head is where the cursor is; otherwise it is looked at by the
--   next pop (R5).
-- Locks: the partition rows with SKIP LOCKED.
create or replace function queen.add_cursors(s queen.subscriptions, p_ids bigint[]) returns void
language plpgsql volatile as $$
declare
    v_now  timestamptz;
    v_held bigint[];
begin
    select coalesce(array_agg(h.id), '{}') into v_held
      from (select id from queen.partitions where id = any (p_ids) order by id for no key update skip locked) h;
    v_now := queen.clock();
    insert into queen.partition_consumers (partition_id, queue_id, consumer_group, last_consumed_seq, ready_at, evict_at)
    select p.id, p.queue_id, s.consumer_group, start.seq,
           case when p.id = any (v_held) and p.next_seq = start.seq + 1 then null else v_now end,
           case when q.max_wait_time_seconds > 0 then v_now end
      from queen.partitions p
      join queen.queues q on q.id = p.queue_id
      left join unnest(s.head_partitions, s.head_seqs) h(id, seq) on h.id = p.id
     cross join lateral (select queen.start_seq(s, p, h.seq) as seq) start
     where p.id = any (p_ids)
        on conflict do nothing;
end $$;
