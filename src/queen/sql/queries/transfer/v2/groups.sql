-- The groups each queue knows, from cursors, status rows, leases and subscriptions together; with $1 also those that only status rows know.
select q.name::text, g.name::text, case when bool_or(lower(g.mode) like 'new%') then 'new' else 'all' end,
       coalesce(min(g.created_at), q.created_at, now()), coalesce(min(g.created_at), q.created_at, now())
  from (select p.queue_id, c.consumer_group as name, null::text as mode, null::timestamptz as created_at
          from partition_cursors c join partitions p on p.id = c.partition_id
        union
        select p.queue_id, l.consumer_group, null, null from partition_leases l join partitions p on p.id = l.partition_id
        union
        select queue_id, name, subscription_mode, created_at from consumer_groups
        union
        select p.queue_id, coalesce(s.consumer_group, '__QUEUE_MODE__'), null, null
          from messages_status s join messages m on m.id = s.message_id join partitions p on p.id = m.partition_id where $1::boolean) g
  join queues q on q.id = g.queue_id
 group by q.name, g.name, q.created_at
