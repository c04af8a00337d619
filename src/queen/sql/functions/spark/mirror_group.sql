-- Promises: the group's cursor in each partition of the queues is at or past the last message below p_to, as far as there are messages in
--   [p_from, p_to). Cursors never go back; a lane under lease is left alone. Lag then shows like that of any other group.
-- Locks: partition rows with SKIP LOCKED (to see whether the lane is drained), consumer rows by partition.
create or replace function queen.mirror_group(p_queues bigint[], p_group text, p_from bigint, p_to bigint) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    v_now   timestamptz;
    v_ids   bigint[];
    v_seqs  bigint[];
    v_held  bigint[];
    v_moved bigint;
begin
    select array_agg(n.partition_id order by n.partition_id), array_agg(n.seq order by n.partition_id) into v_ids, v_seqs
      from (select m.partition_id, max(m.seq) as seq
              from queen.messages m join queen.partitions p on p.id = m.partition_id
             where m.pos >= p_from and m.pos < p_to and p.queue_id = any (p_queues)
             group by m.partition_id) n;
    select coalesce(array_agg(h.id), '{}') into v_held
      from (select id from queen.partitions where id = any (v_ids) order by id for no key update skip locked) h;
    perform from queen.partition_consumers c
      where c.partition_id = any (v_ids) and c.consumer_group = p_group order by c.partition_id for no key update;
    v_now := queen.clock();
    update queen.partition_consumers c
       set last_consumed_seq = n.seq, last_consumed_at = v_now,
           total_messages_consumed = c.total_messages_consumed + n.seq - c.last_consumed_seq,
           total_batches_consumed = c.total_batches_consumed + 1,
           ready_at = case when p.id = any (v_held) and p.next_seq = n.seq + 1 then null else v_now end
      from unnest(v_ids, v_seqs) n(id, seq) join queen.partitions p on p.id = n.id
     where c.partition_id = n.id and c.consumer_group = p_group and c.last_consumed_seq < n.seq and c.lease_id is null;
    get diagnostics v_moved = row_count;
    return v_moved;
end $$;
