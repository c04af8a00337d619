-- Promises: removes a group from one queue (or, p_queue null, from all): its cursors and leases; with p_subscription also where it
--   started, otherwise that applies again at its next contact. Returns how many cursor rows went.
-- Locks: queue rows by id, then consumer rows.
create or replace function queen.forget_group(p_group text, p_queue text, p_subscription boolean) returns bigint
language plpgsql volatile as $$
declare
    v_queues bigint[];
    v_count  bigint;
begin
    select coalesce(array_agg(n.id), '{}') into v_queues
      from (select q.id from queen.queues q join queen.subscriptions s on s.queue_id = q.id and s.consumer_group = p_group
             where p_queue is null or q.name = p_queue order by q.id for no key update of q) n;
    delete from queen.partition_consumers where queue_id = any (v_queues) and consumer_group = p_group;
    get diagnostics v_count = row_count;
    delete from queen.skips s using queen.partitions p
     where p.queue_id = any (v_queues) and s.partition_id = p.id and s.consumer_group = p_group;
    if p_subscription then
        delete from queen.subscriptions where queue_id = any (v_queues) and consumer_group = p_group;
    else
        update queen.subscriptions set filled = false, filled_to = 0 where queue_id = any (v_queues) and consumer_group = p_group;
    end if;
    perform from queen.queue_credits where queue_id = any (v_queues) order by queue_id, slot for no key update;
    update queen.queue_credits set credit = 0 where queue_id = any (v_queues);
    return v_count;
end $$;
