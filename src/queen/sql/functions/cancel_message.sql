-- Promises: where a message stands, by its place, id and transaction id: scheduled, waiting (no group has it or is past it), running
--   (somebody has it under a live lease), dead (a dead letter), done (a group is past it), unknown. One that is scheduled or waiting is
--   removed for every group, unless p_look. Nobody can take it in between.
-- Locks: the partition row, then its consumer rows (R3); nothing with p_look.
create or replace function queen.cancel_message(
    p_queue text, p_partition text, p_id uuid, p_transaction_id text, p_look boolean default false
) returns text
language plpgsql volatile as $$
declare
    v_partition bigint;
    v_seq       bigint;
begin
    if p_look then
        perform from queen.scheduled_messages s join queen.queues q on q.id = s.queue_id where s.id = p_id and q.name = p_queue;
    else
        delete from queen.scheduled_messages s using queen.queues q where s.id = p_id and q.id = s.queue_id and q.name = p_queue;
    end if;
    if found then
        return 'scheduled';
    end if;
    select p.id into v_partition from queen.partitions p join queen.queues q on q.id = p.queue_id
     where q.name = p_queue and p.name = p_partition;
    if not p_look then
        perform from queen.partitions p where p.id = v_partition for no key update;
        perform from queen.partition_consumers c where c.partition_id = v_partition order by c.consumer_group for no key update;
    end if;
    v_seq := queen.find_message(v_partition, coalesce(p_transaction_id, p_id::text));
    if v_seq is null then
        return 'unknown';
    elsif exists (select from queen.dead_letter_queue d where d.partition_id = v_partition and d.seq = v_seq and d.redriven_at is null) then
        return 'dead';
    elsif exists (select from queen.partition_consumers c where c.partition_id = v_partition and c.last_consumed_seq >= v_seq) then
        return 'done';
    elsif exists (select from queen.partition_consumers c
                   where c.partition_id = v_partition and c.lease_id is not null and c.lease_expires_at > queen.clock()
                     and v_seq between c.batch_from and c.batch_to) then
        return 'running';
    elsif not p_look then
        perform queen.delete_message(v_partition, coalesce(p_transaction_id, p_id::text));
    end if;
    return 'waiting';
end $$;
