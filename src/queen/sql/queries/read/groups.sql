-- Every (group, queue) with how far it is, by name.
with lanes as (
    select c.queue_id, c.consumer_group, count(*) as members, max(c.last_consumed_at) as last_consumed_at,
           sum(c.total_messages_consumed)::bigint as consumed,
           count(*) filter (where c.lease_id is not null and c.lease_expires_at > queen.clock()) as leases
      from queen.partition_consumers c where $1::text is null or c.consumer_group = $1
     group by c.queue_id, c.consumer_group
), behind as (
    select w.queue_id, w.consumer_group, count(*) as lanes, sum(w.waiting)::bigint as waiting, min(w.oldest_at) as oldest_at
      from queen.waiting_lanes(null, $1) w group by w.queue_id, w.consumer_group
)
select s.consumer_group, q.name as queue_name, coalesce(l.members, 0) as members, coalesce(b.lanes, 0) as lagging,
       coalesce(b.waiting, 0) as waiting, coalesce(l.consumed, 0) as consumed, coalesce(l.leases, 0) as leases, l.last_consumed_at,
       case when b.oldest_at is not null then greatest(floor(extract(epoch from queen.clock() - b.oldest_at)), 0)::bigint end as lag_seconds,
       s.mode, s.start_at, s.created_at
  from queen.subscriptions s
  join queen.queues q on q.id = s.queue_id
  left join lanes l on l.queue_id = s.queue_id and l.consumer_group = s.consumer_group
  left join behind b on b.queue_id = s.queue_id and b.consumer_group = s.consumer_group
 where $1::text is null or s.consumer_group = $1
 order by s.consumer_group, q.name
