-- Promises: the partition and its queue stay until the transaction ends, so that a row that points to them can be written later
--   without waiting for somebody who deletes them. False when they are gone or, with p_wait false, held by such a one.
--   To be called before consumer rows are locked: a delete takes the queue, then the partition, then its consumers.
-- Locks: the queue row, then the partition row (FOR KEY SHARE: neither pushes nor configure wait for it).
create or replace function queen.keep_partition(p_partition bigint, p_wait boolean) returns boolean
language plpgsql volatile as $$
declare
    v_queue bigint;
begin
    select queue_id into v_queue from queen.partitions where id = p_partition;
    if p_wait then
        perform from queen.queues where id = v_queue for key share;
        perform from queen.partitions where id = p_partition for key share;
    else
        perform from queen.queues where id = v_queue for key share skip locked;
        if not found then
            return false;
        end if;
        perform from queen.partitions where id = p_partition for key share skip locked;
    end if;
    return found;
end $$;
