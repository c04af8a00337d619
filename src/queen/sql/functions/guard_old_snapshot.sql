-- Promises: a push above READ COMMITTED fails with 40001 when a group was registered, or the queue configured, since its snapshot:
--   it would not see whom to wake (R4). Called before the partitions are locked; queen.guard_lanes goes on after that.
-- Locks: queue rows FOR SHARE.
create or replace function queen.guard_old_snapshot(p_queues bigint[]) returns void
language plpgsql volatile as $$
begin
    perform from queen.queues where id = any (p_queues) order by id for share;
    if exists (select from queen.subscriptions where queue_id = any (p_queues) and not (filled and settled)) then
        raise exception using errcode = '40001', message = 'a consumer group is being registered on this queue; try again';
    end if;
end $$;
