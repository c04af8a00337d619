-- Promises: writes the state operations of one cycle (upsert | delete, in the order given, the last one of a key counts) and, when asked,
--   lets go of the source lane's lease whatever is left of its batch. Cycles of one (query, partition) commit one after the other.
--   Returns the source queue's name, its id, and whether a lease was let go. Raises INVALID_QUERY_ID, INVALID_PARTITION_ID.
-- Locks: an advisory lock of the transaction on (query, partition), the query's row FOR SHARE, state rows by key; last of all.
create or replace function queen.apply_stream_state(
    p_query uuid, p_partition bigint, p_types text[], p_keys text[], p_values jsonb[], p_group text, p_release uuid
) returns table (queue_name text, queue_id bigint, released boolean)
language plpgsql volatile as $$
declare
    v_now timestamptz;
    q     record;
begin
    perform pg_advisory_xact_lock(hashtextextended(p_query::text || ':' || p_partition::text, 6632));
    perform from queen.stream_queries s where s.id = p_query for share;
    if not found then
        perform queen.raise_error('INVALID_QUERY_ID', 'query_id names no registered stream query');
    end if;
    select x.id, x.name into q from queen.partitions p join queen.queues x on x.id = p.queue_id where p.id = p_partition;
    if not found then
        perform queen.raise_error('INVALID_PARTITION_ID', 'partition_id names no partition');
    end if;
    v_now := queen.clock();
    with ops as (
        select distinct on (o.key) o.type, o.key, o.value
          from unnest(p_types, p_keys, p_values) with ordinality o(type, key, value, place) order by o.key, o.place desc
    ), gone as (
        delete from queen.stream_state s using ops
         where ops.type = 'delete' and s.query_id = p_query and s.partition_id = p_partition and s.key = ops.key
    )
    insert into queen.stream_state (query_id, partition_id, key, value, updated_at)
    select p_query, p_partition, ops.key, coalesce(ops.value, 'null'), v_now from ops where ops.type = 'upsert' order by ops.key
        on conflict on constraint stream_state_pkey do update set value = excluded.value, updated_at = excluded.updated_at;
    return query select q.name, q.id, r.released > 0 from queen.release(array[p_release], 0, p_partition) r;
end $$;
