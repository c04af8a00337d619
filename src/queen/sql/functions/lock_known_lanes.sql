-- Promises: queen.find_lanes and queen.lock_heads in one, for a caller that remembers the ids of its lanes: everything null unless each id
--   (ascending) is the partition of that name in the queue of that name, nobody else holds one of them, and no queue has a limit (its credit
--   comes before the partitions), a maximum wait, or takes sealed payloads only. What the caller remembers is checked under the lock and never believed.
--   Never waits, so a caller whose answer is null may go on to lock by name, as long as that does not wait either.
--   Planned under the settings of queen.push_messages.
-- Locks: the partition rows, until the transaction ends; also where the answer is null.
create or replace function queen.lock_known_lanes(
    p_queue text[], p_partition text[], p_ids bigint[],
    out queues bigint[], out ids bigint[], out delays double precision[], out bases bigint[], out times timestamptz[], out places tid[]
) language plpgsql volatile as $$
declare
    q       record;
    v_names text[];
    v_found text[];
begin
    select array_agg(x.id) as ids, array_agg(x.name) as names,
           array_agg(greatest(x.delayed_processing, x.window_buffer)::double precision) as delays,
           bool_or(x.max_queue_size > 0 or x.encryption_enabled or x.max_wait_time_seconds > 0) as special
      into q from queen.queues x where x.name = any (p_queue);
    if q.special or cardinality(q.ids) > 32 then  -- among more queues than this, one probe each is cheaper
        return;
    end if;
    select array_agg(h.id), array_agg(h.queue_id), array_agg(h.name), array_agg(q.names[h.of]), array_agg(q.delays[h.of]),
           array_agg(h.next_seq), array_agg(h.last_created_at), array_agg(h.place)
      into ids, queues, v_names, v_found, delays, bases, times, places
      from (select p.id, p.queue_id, p.name, array_position(q.ids, p.queue_id) as of, p.next_seq, p.last_created_at, p.ctid as place
              from queen.partitions p where p.id = any (p_ids) order by p.id for no key update skip locked) h;
    if not (ids = p_ids and v_names = p_partition and v_found = p_queue) then
        ids := null;
    end if;
end $$;
