-- Promises: one row per limited queue among the lanes, after a push: status depth, how many messages it holds at most, and its limit. It
--   is what was counted last and what was pushed since, so that no push counts while there is credit: exact right after a count and
--   when no credit is left, and never less than the true depth.
-- Locks: nothing.
create or replace function queen.push_depths(p_queues bigint[])
returns table (lane integer, item integer, status text, partition_id bigint, seq bigint, message_id uuid, queue_id bigint,
               woken boolean, depth bigint, queue_limit bigint)
language sql volatile as $$
    select min(n.place)::integer, null::integer, 'depth', null::bigint, null::bigint, null::uuid, q.id, false,
           coalesce(q.max_queue_size - (select nullif(sum(c.credit), 0)::bigint from queen.queue_credits c where c.queue_id = q.id),
                    queen.queue_depth(q.id)), q.max_queue_size::bigint
      from unnest(p_queues) with ordinality n(id, place) join queen.queues q on q.id = n.id
     where q.max_queue_size > 0 group by q.id
$$;
