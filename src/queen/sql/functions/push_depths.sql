-- Promises: one row per limited queue among the lanes, after a push: status depth, how many messages it holds now and its limit. Exact.
-- Locks: nothing.
create or replace function queen.push_depths(p_queues bigint[])
returns table (lane integer, item integer, status text, partition_id bigint, seq bigint, message_id uuid, queue_id bigint,
               woken boolean, depth bigint, queue_limit bigint)
language sql volatile as $$
    select min(n.place)::integer, null::integer, 'depth', null::bigint, null::bigint, null::uuid, q.id, false,
           queen.queue_depth(q.id), q.max_queue_size::bigint
      from unnest(p_queues) with ordinality n(id, place) join queen.queues q on q.id = n.id
     where q.max_queue_size > 0 group by q.id
$$;
