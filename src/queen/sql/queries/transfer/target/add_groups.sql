-- Groups seen at work that a queue did not know: $1 queues, $2 groups. Returns the queues that know one more now.
insert into subscriptions (queue_id, consumer_group, mode, start_at, filled, created_at, used_at)
select distinct n.queue_id, n.name, 'all', q.created_at, true, now(), now()
  from unnest($1::bigint[], $2::text[]) n(queue_id, name) join queues q on q.id = n.queue_id
    on conflict do nothing
returning queue_id
