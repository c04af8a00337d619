-- Promises: gives a group that was registered beside open transactions that made partitions its cursor rows there, once all of them have
--   ended; does nothing before that, and above READ COMMITTED, where what they made is not seen. Whoever makes a partition after
--   the group was registered gives it its row (R5).
-- Locks: the advisory lock on the queue's groups, tried and released at once; the subscription row.
create or replace function queen.settle_group(p_queue_id bigint, p_group text) returns void
language plpgsql volatile as $$
declare
    v_key constant bigint := hashtextextended('queen.groups', p_queue_id);
    s     queen.subscriptions;
begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') or not pg_try_advisory_lock(v_key) then
        return;
    end if;
    perform pg_advisory_unlock(v_key);
    select x.* into s from queen.subscriptions x
     where x.queue_id = p_queue_id and x.consumer_group = p_group and not x.settled for no key update skip locked;
    if found then
        perform queen.add_cursors(s, array(
            select p.id from queen.partitions p where p.queue_id = p_queue_id and not exists (
                select from queen.partition_consumers c where c.partition_id = p.id and c.consumer_group = p_group) order by p.id));
        update queen.subscriptions set settled = true, head_partitions = null, head_seqs = null
         where queue_id = p_queue_id and consumer_group = p_group;
    end if;
end $$;
