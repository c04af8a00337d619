-- Promises: "everything up to p_up_to is done" for whole leases at once, the common case: one update per partition, no message is read.
--   Statuses as in queen.move_cursors, which the engine calls itself.
-- Locks: as queen.move_cursors.
create or replace function queen.ack_leases(
    p_partition bigint[], p_group text[], p_lease uuid[], p_up_to bigint[], p_wait boolean default true
) returns table (entry integer, status text, released boolean, consumed bigint, queue_id bigint, more boolean)
language plpgsql volatile as $$
begin
    return query select * from queen.move_cursors(p_partition, p_group, p_lease, p_up_to, p_wait);
end $$;
