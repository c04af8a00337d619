-- Promises: a push above READ COMMITTED fails with 40001 when anything it would have to wake has changed since its snapshot, instead
--   of losing a wake-up (R4).
-- Locks: queue rows FOR SHARE, consumer rows of the partitions FOR KEY SHARE.
create or replace function queen.guard_old_snapshot(p_queues bigint[], p_ids bigint[]) returns void
language plpgsql volatile as $$
begin
    perform from queen.queues where id = any (p_queues) order by id for share;
    if exists (select from queen.subscriptions where queue_id = any (p_queues) and not filled) then
        raise exception using errcode = '40001', message = 'a consumer group is being registered on this queue; try again';
    end if;
    perform from queen.partition_consumers where partition_id = any (p_ids) order by partition_id, consumer_group for key share;
end $$;
