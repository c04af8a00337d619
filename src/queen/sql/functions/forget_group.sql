-- Promises: removes a group from one queue (or, p_queue null, from all): its cursors and leases; with p_subscription also where it
--   started, otherwise that applies again at its next contact. p_unused_since: only where it has not asked for messages since then, and
--   holds no live lease. Returns how many cursor rows went.
-- Locks: the advisory locks on the queues' groups and queue rows, by id, then consumer rows.
create or replace function queen.forget_group(
    p_group text, p_queue text, p_subscription boolean, p_unused_since timestamptz default null) returns bigint
language plpgsql volatile as $$
declare
    v_queues bigint[];
    v_count  bigint;
begin
    perform pg_advisory_xact_lock(hashtextextended('queen.groups', n.id))
       from (select q.id from queen.queues q join queen.subscriptions s on s.queue_id = q.id and s.consumer_group = p_group
              where p_queue is null or q.name = p_queue order by q.id) n;
    select coalesce(array_agg(n.id), '{}') into v_queues
      from (select q.id from queen.queues q join queen.subscriptions s on s.queue_id = q.id and s.consumer_group = p_group
             where p_queue is null or q.name = p_queue order by q.id for no key update of q) n;
    if p_unused_since is not null then
        select coalesce(array_agg(s.queue_id), '{}') into v_queues from queen.subscriptions s
         where s.queue_id = any (v_queues) and s.consumer_group = p_group and s.used_at < p_unused_since
           and not exists (select from queen.partition_consumers c where c.queue_id = s.queue_id and c.consumer_group = p_group
                              and c.lease_id is not null and c.lease_expires_at > queen.clock());
    end if;
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
