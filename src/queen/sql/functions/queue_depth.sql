-- Promises: how many messages the slowest known group of the queue has not passed; with no group, all that are kept. A group that is
--   registered and has no cursor in a partition yet counts from where it will start there. Arithmetic on cursors, less recorded skips;
--   nothing is counted message by message (I8).
-- Locks: nothing.
create or replace function queen.queue_depth(p_queue_id bigint) returns bigint
language sql stable set enable_hashjoin = on as $$
    select coalesce(sum(queen.lane_depth(p, null, slowest.seq)), 0)::bigint
      from queen.partitions p
      left join (select x.id, min(x.seq) as seq
                   from queen.subscriptions s
                  cross join lateral (
                      select n.id, queen.start_seq(s, n, h.seq) as seq
                        from queen.partitions n left join unnest(s.head_partitions, s.head_seqs) h(id, seq) on h.id = n.id
                       where n.queue_id = p_queue_id
                         and not exists (select from queen.partition_consumers c
                                          where c.partition_id = n.id and c.consumer_group = s.consumer_group)
                      offset 0) x
                  where s.queue_id = p_queue_id and not (s.filled and s.settled)
                  group by x.id) fresh on fresh.id = p.id
     cross join lateral (
         select coalesce(least((select min(c.last_consumed_seq) from queen.partition_consumers c where c.partition_id = p.id), fresh.seq), 0) as seq
     ) slowest
     where p.queue_id = p_queue_id
$$;
