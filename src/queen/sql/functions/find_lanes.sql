-- Promises: for each lane its queue, partition and delay, in the order given (null where there is none yet); whether any is missing, has
--   a limit, takes sealed payloads only, or has a maximum wait. The look-ups are correlated, so each is one probe of a unique index whatever the statistics
--   say (R14). Planned under the settings of queen.push_messages.
-- Locks: nothing.
create or replace function queen.find_lanes(p_queue text[], p_partition text[])
returns table (queues bigint[], ids bigint[], delays double precision[], missing boolean, limited boolean, sealed boolean,
               hurried boolean)
language sql stable as $$
    select array_agg(q.id order by n.place), array_agg(p.id order by n.place),
           array_agg(greatest(q.delayed_processing, q.window_buffer)::double precision order by n.place),
           bool_or(p.id is null), coalesce(bool_or(q.max_queue_size > 0), false), coalesce(bool_or(q.encryption_enabled), false),
           coalesce(bool_or(q.max_wait_time_seconds > 0), false)
      from unnest(p_queue, p_partition) with ordinality n(queue, partition, place)
      left join lateral (select x.* from queen.queues x where x.name = n.queue limit 1) q on true
      left join lateral (select x.id from queen.partitions x where x.queue_id = q.id and x.name = n.partition limit 1) p on true
$$;
