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
        select greatest(p.next_seq - greatest(coalesce(min(c.last_consumed_seq), 0) + 1, p.first_seq), 0) as waiting
          from queen.partition_consumers c where c.partition_id = p.id
     ) w
     where p.queue_id = q.id
 ) d;
