-- Promises: for each lane whether the caller may create it (true as well when it exists). With p_wait false those that someone else is
--   creating at this moment, in a transaction still open, are false instead of being waited for (I5, R6). Calls that create more than
--   256 lanes at once claim nothing: whoever creates the same ones meanwhile waits for them.
-- Locks: one transaction-level advisory lock per queue and partition to be created, in the order of their keys.
create or replace function queen.claim_lanes(p_queue text[], p_partition text[], p_wait boolean) returns boolean[]
language plpgsql volatile as $$
declare
    v_keys bigint[];
    v_free boolean[];
begin
    select array_agg(distinct k.key order by k.key) into v_keys
      from unnest(p_queue, p_partition) n(queue, partition)
      left join queen.queues q on q.name = n.queue
     cross join lateral (values (case when q.id is null then hashtextextended(n.queue, 1) end),
                                (hashtextextended(n.queue || '/' || n.partition, 2))) k(key)
     where k.key is not null and not exists (select from queen.partitions p where p.queue_id = q.id and p.name = n.partition);
    if v_keys is null or cardinality(v_keys) > 256 then
        return array_fill(true, array[cardinality(p_queue)]);
    end if;
    if p_wait then
        perform pg_advisory_xact_lock(k.key) from unnest(v_keys) k(key);
        return array_fill(true, array[cardinality(p_queue)]);
    end if;
    select array_agg(pg_try_advisory_xact_lock(k.key)) into v_free from unnest(v_keys) k(key);
    return (select array_agg(coalesce(v_free[array_position(v_keys, hashtextextended(n.queue, 1))], true)
                             and coalesce(v_free[array_position(v_keys, hashtextextended(n.queue || '/' || n.partition, 2))], true)
                             order by n.place)
              from unnest(p_queue, p_partition) with ordinality n(queue, partition, place));
end $$;
