-- A group that is registered and has no cursor row in a partition yet waits for everything it will get there: what it passes by its
-- start is known by its heads (mode new); one that starts at a time is taken to want all that is kept.

create or replace view queen.queue_depths as
select q.name as queue_name, d.depth as current_depth, q.max_queue_size,
       case when q.max_queue_size > 0 then greatest(q.max_queue_size - d.depth, 0) end as remaining_capacity
  from queen.queues q
 cross join lateral (
    select coalesce(sum(w.waiting - case when p.has_skips then (
               select count(distinct s.seq) from queen.skips s
                where s.partition_id = p.id and s.consumer_group = '*' and s.seq >= p.next_seq - w.waiting) else 0 end), 0)::bigint as depth
      from queen.partitions p
     cross join lateral (
        select greatest(p.next_seq - greatest(coalesce(min(c.seq), 0) + 1, p.first_seq), 0) as waiting
          from (select x.last_consumed_seq as seq from queen.partition_consumers x where x.partition_id = p.id
                union all
                select coalesce(s.head_seqs[array_position(s.head_partitions, p.id)], 0)
                  from queen.subscriptions s
                 where s.queue_id = p.queue_id and not (s.filled and s.settled)
                   and not exists (select from queen.partition_consumers x
                                    where x.partition_id = p.id and x.consumer_group = s.consumer_group)) c
     ) w
     where p.queue_id = q.id
 ) d;
