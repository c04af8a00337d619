-- The partitions of the source; with $1 also how many messages each has.
select p.id, q.name::text, p.name::text, coalesce(p.created_at, now()), coalesce(p.last_activity, p.created_at, now()), coalesce(c.count, 0)
  from partitions p
  join queues q on q.id = p.queue_id
  left join (select partition_id, count(*) as count from messages where $1::boolean group by partition_id) c on c.partition_id = p.id
