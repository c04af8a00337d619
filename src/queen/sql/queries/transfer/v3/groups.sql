-- The groups each queue knows, from cursors and subscriptions together. $1 is for v2, where one more table has to be read.
with known as (
    select distinct p.queue_id, c.consumer_group::text as name from partition_consumers c join partitions p on p.id = c.partition_id
     where $1::boolean is not null
), told as (
    select distinct on (q.id, m.consumer_group) q.id as queue_id, m.consumer_group::text as name,
           case when lower(m.subscription_mode) like 'new%' then 'new' when lower(m.subscription_mode) = 'all' then 'all'
                when m.subscription_timestamp is not null then 'timestamp' else 'all' end as mode,
           coalesce(m.subscription_timestamp, m.created_at) as start_at, m.created_at
      from queues q
      join consumer_groups_metadata m
        on case when coalesce(m.queue_name, '') <> '' then m.queue_name = q.name
                else coalesce(m.namespace, '') || coalesce(m.task, '') <> ''
                     and coalesce(m.namespace, '') in ('', q.namespace) and coalesce(m.task, '') in ('', q.task) end
     order by q.id, m.consumer_group, coalesce(m.queue_name, '') <> '' desc, coalesce(m.partition_name, '') <> '', m.created_at, m.id
)
select q.name::text, g.name, coalesce(t.mode, 'all'), coalesce(t.start_at, q.created_at, now()), coalesce(t.created_at, q.created_at, now())
  from (select queue_id, name from known union select queue_id, name from told) g
  join queues q on q.id = g.queue_id
  left join told t on t.queue_id = g.queue_id and t.name = g.name
