-- Promises: the messages of a lease are done: all of them, or with `message_id` that one and those before it in its partition, the rest
--   stays leased. Returns how many messages were finished by this call. A lease that was given on or handed back raises LEASE_LOST and
--   nothing changes; one that only ran out of time is still good. In one transaction with your own statements: they happen together
--   or not at all. Raises MESSAGE_NOT_FOUND.
-- Locks: as queen.ack_leases.
create or replace function queen.ack(lease_id uuid, message_id uuid default null) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_count bigint;
    l       record;
begin
    l := queen.leased_range(ack.lease_id, ack.message_id);
    select sum(a.consumed) into v_count
      from queen.ack_leases(l.ids, l.groups, array_fill(ack.lease_id, array[cardinality(l.ids)]), l.last) a
     where a.status = 'acked';
    return coalesce(v_count, 0);
end $$;
