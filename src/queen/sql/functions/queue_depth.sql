-- Promises: how many messages the slowest known group of the queue has not passed; with no group, all that are kept. Arithmetic on
--   cursors, less recorded skips; nothing is counted message by message (I8).
-- Locks: nothing.
create or replace function queen.queue_depth(p_queue_id bigint) returns bigint
language sql stable as $$
    select coalesce(sum(depth.waiting - case when p.has_skips then (
               select count(distinct s.seq) from queen.skips s
                where s.partition_id = p.id and s.consumer_group = '*' and s.seq >= p.next_seq - depth.waiting) else 0 end), 0)::bigint
      from queen.partitions p
     cross join lateral (
         select greatest(p.next_seq - greatest(
             coalesce((select min(c.last_consumed_seq) from queen.partition_consumers c where c.partition_id = p.id), 0) + 1,
             p.first_seq), 0) as waiting
     ) depth
     where p.queue_id = p_queue_id
$$;
