-- Messages each group has still to get, counted one by one.
select q.name as queue, s.consumer_group,
       (select count(*) from queen.partitions p join queen.messages m on m.partition_id = p.id
          left join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = s.consumer_group
         where p.queue_id = q.id and m.seq > coalesce(c.last_consumed_seq, 0)
           and not exists (select from queen.skips k where k.partition_id = p.id and k.seq = m.seq
                              and k.consumer_group in ('*', s.consumer_group))) as lag
  from queen.queues q join queen.subscriptions s on s.queue_id = q.id
