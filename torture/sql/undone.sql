-- How much is left for all groups together, and how much is scheduled.
select (select coalesce(sum(queen.lane_depth(p, c.consumer_group, c.last_consumed_seq)), 0)::bigint
          from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id
          join queen.queues q on q.id = p.queue_id where q.name <> all ($1::text[])) as waiting,
       (select count(*) from queen.scheduled_messages s join queen.queues q on q.id = s.queue_id
         where q.name <> all ($1::text[])) as scheduled
