-- Promises: every named queue and partition exists afterwards; returns the partition ids in the order given. A queue born here takes
--   namespace and task from the first two dotted parts of its name. A new partition has a cursor row for every group registered on
--   the queue, and neither can miss the other (R5). p_wait false: what someone else is creating in an open transaction is left out,
--   its id is null.
-- Locks: advisory locks (queen.claim_lanes); of queues that need a new partition, by id, the advisory lock on their groups (shared) and the
--   queue row FOR KEY SHARE, so that only who changes groups or deletes the queue waits for an open transaction that made a partition;
--   above READ COMMITTED FOR SHARE, which notices what changed since the snapshot (R4); then inserts.
create or replace function queen.create_partitions(p_queue text[], p_partition text[], p_wait boolean default true) returns bigint[]
language plpgsql volatile as $$
declare
    v_mine boolean[] := queen.claim_lanes(p_queue, p_partition, p_wait);
    v_queues bigint[];
    v_ids  bigint[];
begin
    insert into queen.queues (name, namespace, task, created_at)
    select distinct n.queue, case when position('.' in n.queue) > 0 then split_part(n.queue, '.', 1) else '' end,
           split_part(n.queue, '.', 2), queen.clock()
      from unnest(p_queue, v_mine) n(queue, mine)
     where n.mine and not exists (select from queen.queues where name = n.queue)
     order by 1
        on conflict (name) do nothing;

    select array_agg(q.id order by q.id) into v_queues from queen.queues q
     where q.name = any (p_queue)
       and exists (select from unnest(p_queue, p_partition, v_mine) n(queue, partition, mine)
                    where n.queue = q.name and n.mine
                      and not exists (select from queen.partitions p where p.queue_id = q.id and p.name = n.partition));
    if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
        perform pg_advisory_xact_lock_shared(hashtextextended('queen.groups', q)) from unnest(v_queues) q;
        perform from queen.queues q where q.id = any (v_queues) order by q.id for key share;
    else
        perform from queen.queues q where q.id = any (v_queues) order by q.id for share;
    end if;

    with born as (
        insert into queen.partitions (queue_id, name, created_at, last_activity)
        select q.id, n.partition, queen.clock(), queen.clock()
          from unnest(p_queue, p_partition, v_mine) n(queue, partition, mine)
          join queen.queues q on q.name = n.queue
         where n.mine and not exists (select from queen.partitions p where p.queue_id = q.id and p.name = n.partition)
         order by q.id, n.partition
            on conflict (queue_id, name) do nothing
        returning id, queue_id
    )
    insert into queen.partition_consumers (partition_id, queue_id, consumer_group)
    select born.id, born.queue_id, s.consumer_group
      from born join queen.subscriptions s on s.queue_id = born.queue_id
        on conflict do nothing;

    select array_agg((select p.id from queen.partitions p join queen.queues q on q.id = p.queue_id
                       where q.name = n.queue and p.name = n.partition) order by n.place)
      into v_ids
      from unnest(p_queue, p_partition) with ordinality n(queue, partition, place);
    if exists (select from unnest(v_ids, v_mine) n(id, mine) where n.id is null and n.mine) then
        -- Deleted at this very moment, or invisible to the caller's old snapshot.
        raise exception using errcode = '40001', message = 'a queue or partition changed while it was created; try again';
    end if;
    return v_ids;
end $$;
