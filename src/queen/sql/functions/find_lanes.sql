-- Promises: for each lane its queue, partition and delay, in the order given (null where there is none yet); whether any is missing, has
--   a limit, or takes sealed payloads only. The look-ups are correlated, so each is one probe of a unique index whatever the statistics
--   say (R14). Planned under the settings of queen.push_messages.
-- Locks: nothing.
create or replace function queen.find_lanes(p_queue text[], p_partition text[])
returns table (queues bigint[], ids bigint[], delays double precision[], missing boolean, limited boolean, sealed boolean)
language sql stable as $$
    select array_agg(n.queue_id order by n.place), array_agg(n.id order by n.place), array_agg(n.delay order by n.place),
           bool_or(n.id is null), coalesce(bool_or(n.limited), false), coalesce(bool_or(n.sealed), false)
      from (select n.place, q.id as queue_id, greatest(q.delayed_processing, q.window_buffer)::double precision as delay,
                   q.max_queue_size > 0 as limited, q.encryption_enabled as sealed,
                   (select p.id from queen.partitions p where p.queue_id = q.id and p.name = n.partition) as id
              from unnest(p_queue, p_partition) with ordinality n(queue, partition, place)
              left join lateral (select x.* from queen.queues x where x.name = n.queue limit 1) q on true) n
$$;
