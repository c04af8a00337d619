-- Promises: moves a group's cursors on a queue (or one partition): to start, end, just after the newest message not later than a time, or
--   to a seq. Leases end, retries start again. p_dry_run: only says what would happen. Returns one row: partitions moved, messages that
--   are delivered again, messages that are skipped.
-- Locks: queue row, as queen.settle_group, credit slots, partition rows by id, consumer rows (R3).
create or replace function queen.seek(
    p_queue text, p_group text, p_to text, p_time timestamptz default null, p_seq bigint default null, p_partition text default null,
    p_dry_run boolean default false
) returns table (partitions bigint, redelivered bigint, skipped bigint)
language plpgsql volatile as $$
declare
    v_ids  bigint[];
    v_seqs bigint[];
    q      queen.queues;
begin
    if coalesce(case p_to when 'start' then false when 'end' then false when 'time' then p_time is null when 'seq' then p_seq is null end,
                true) then
        perform queen.raise_error('INVALID_REQUEST', 'p_to must be start, end, time with p_time, or seq with p_seq');
    end if;
    select x.* into q from queen.queues x where x.name = p_queue for no key update;
    if not found then
        perform queen.raise_error('QUEUE_NOT_FOUND', format('there is no queue %L', p_queue));
    end if;
    perform queen.settle_group(q.id, s.consumer_group) from queen.subscriptions s
      where s.queue_id = q.id and s.consumer_group = p_group and s.filled and not s.settled;
    perform from queen.queue_credits where queue_id = q.id order by slot for no key update;
    select coalesce(array_agg(n.id), '{}') into v_ids
      from (select p.id from queen.partitions p
             where p.queue_id = q.id and (p_partition is null or p.name = p_partition)
               and exists (select from queen.partition_consumers c where c.partition_id = p.id and c.consumer_group = p_group)
             order by p.id for no key update) n;
    perform from queen.partition_consumers c where c.partition_id = any (v_ids) and c.consumer_group = p_group
      order by c.partition_id for no key update;
    select array_agg(p.id order by p.id), array_agg(t.seq order by p.id), count(*),
           coalesce(sum(greatest(t.was - t.seq, 0)), 0)::bigint, coalesce(sum(greatest(t.seq - t.was, 0)), 0)::bigint
      into v_ids, v_seqs, partitions, redelivered, skipped
      from queen.partitions p
      join queen.partition_consumers c on c.partition_id = p.id and c.consumer_group = p_group
     cross join lateral (
        select greatest(c.last_consumed_seq, p.first_seq - 1) as was,
               least(greatest(case p_to when 'start' then 0 when 'end' then p.next_seq - 1 when 'time' then queen.seq_at(p.id, p_time, true)
                                        else p_seq end, p.first_seq - 1), p.next_seq - 1) as seq) t
     where p.id = any (v_ids);
    if not p_dry_run and partitions > 0 then
        perform from queen.move_cursors(v_ids, array_fill(p_group, array[cardinality(v_ids)]), null, v_seqs, p_outcome => 'moved',
                                        p_over => true, p_back => true, p_acked => false);
        if q.max_wait_time_seconds > 0 then
            update queen.partition_consumers c set evict_at = queen.clock() where c.partition_id = any (v_ids) and c.consumer_group = p_group;
        end if;
        update queen.queue_credits set credit = 0 where queue_id = q.id;
    end if;
    return next;
end $$;
