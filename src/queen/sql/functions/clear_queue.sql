-- Promises: removes all messages of a queue; cursors move to the head and leases end. Scheduled messages and dead letters stay. Returns
--   how many messages went.
-- Locks: queue row, credit slots, partition rows by id, consumer rows (R3).
create or replace function queen.clear_queue(p_queue text) returns bigint
language plpgsql volatile as $$
declare
    v_queue bigint;
    v_ids   bigint[];
    v_count bigint;
begin
    select id into v_queue from queen.queues where name = p_queue for no key update;
    if not found then
        perform queen.raise_error('QUEUE_NOT_FOUND', format('there is no queue %L', p_queue));
    end if;
    perform from queen.queue_credits where queue_id = v_queue order by slot for no key update;
    select coalesce(array_agg(n.id), '{}') into v_ids
      from (select id from queen.partitions where queue_id = v_queue order by id for no key update) n;
    perform from queen.partition_consumers where partition_id = any (v_ids) order by partition_id, consumer_group for no key update;
    perform queen.note_removal(p.id, p.next_seq) from queen.partitions p where p.id = any (v_ids);
    delete from queen.messages where partition_id = any (v_ids);
    get diagnostics v_count = row_count;
    perform from (select array_agg(c.partition_id) as ids, array_agg(c.consumer_group) as groups, array_agg(p.next_seq - 1) as seqs
                    from queen.partition_consumers c join queen.partitions p on p.id = c.partition_id where p.id = any (v_ids)) a
      cross join lateral queen.move_cursors(a.ids, a.groups, null, a.seqs, p_outcome => 'moved', p_over => true, p_back => true,
                                            p_acked => false);
    delete from queen.skips where partition_id = any (v_ids);
    update queen.partitions set first_seq = next_seq, has_skips = false, oldest_at = null, idle_since = last_activity where id = any (v_ids);
    update queen.queue_credits set credit = 0 where queue_id = v_queue;
    return v_count;
end $$;
