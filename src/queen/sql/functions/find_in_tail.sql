-- Promises: the messages of a partition with one of these ids and no transaction id of their own, as far as they were stored later than
--   five minutes before the oldest of the ids was made. Joined by hash: costs the tail and the ids, not one times the other.
-- Locks: nothing.
create or replace function queen.find_in_tail(p_partition bigint, p_ids uuid[], p_now timestamptz) returns table (seq bigint, id uuid)
language plpgsql stable set enable_hashjoin = on set enable_nestloop = off set enable_mergejoin = off as $$
declare
    v_after bigint := queen.seq_at(p_partition, (select min(least(queen.uuid7_time(i.id), p_now)) from unnest(p_ids) i(id))
                                                - interval '5 minutes');
begin
    return query
        select m.seq, m.id from queen.messages m join unnest(p_ids) i(id) on i.id = m.id
         where m.partition_id = p_partition and m.seq > v_after and m.transaction_id is null;
end $$;
