-- Promises: a group's first contact with a queue: remembers how it starts (all | new | timestamp), also on an empty queue; does nothing
--   when the group is known. mode new starts at the heads committed at this moment, whatever commits later is delivered; a timestamp
--   that is missing or still to come is the same as new. Of two first contacts at once the first one decides. The group's cursor
--   rows are added afterwards, in chunks of their own (queen.fill_subscription), after this has committed. Returns false when done.
--   Beside open transactions that make partitions the group is not settled: pops give it those when they are there.
-- Locks: the advisory lock on the queue's groups, tried, so that no partition is created meanwhile (R5); the queue row; credit slots of
--   a limited queue.
create or replace function queen.subscribe(p_queue text, p_group text, p_mode text, p_from timestamptz) returns boolean
language plpgsql volatile as $$
declare
    v_now   timestamptz;
    v_queue bigint;
    v_done  boolean;
    v_alone boolean;
begin
    select id into v_queue from queen.queues where name = p_queue;
    if not found then
        perform queen.create_partitions(array[p_queue], array['Default']);
        select id into v_queue from queen.queues where name = p_queue;
    end if;
    select filled into v_done from queen.subscriptions where queue_id = v_queue and consumer_group = p_group;
    if found then
        return not v_done;
    end if;
    v_alone := pg_try_advisory_xact_lock(hashtextextended('queen.groups', v_queue));
    update queen.queues set group_changes = group_changes + 1 where id = v_queue;
    v_now := queen.clock();
    if p_mode = 'timestamp' and coalesce(p_from, v_now) >= v_now then
        p_mode := 'new';
    end if;
    insert into queen.subscriptions (queue_id, consumer_group, mode, start_at, created_at, settled)
    values (v_queue, p_group, p_mode, case when p_mode = 'timestamp' then p_from else v_now end, v_now, v_alone)
        on conflict do nothing;
    if not found then
        return true;
    end if;
    if p_mode = 'new' then
        update queen.subscriptions s
           set (head_partitions, head_seqs) = (select array_agg(p.id order by p.id), array_agg(p.next_seq - 1 order by p.id)
                                                 from queen.partitions p where p.queue_id = v_queue)
         where s.queue_id = v_queue and s.consumer_group = p_group;
    end if;
    perform from queen.queue_credits where queue_id = v_queue order by slot for no key update;
    update queen.queue_credits set credit = 0 where queue_id = v_queue;
    return true;
end $$;
