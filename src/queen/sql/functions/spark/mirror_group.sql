-- Promises: the group's cursor in each partition of the queues is at or past the last message below p_to, as far as there are messages in
--   [p_from, p_to). Cursors never go back; a lane under lease is left alone. Lag then shows like that of any other group.
-- Locks: consumer rows by partition, then as queen.move_cursors.
create or replace function queen.mirror_group(p_queues bigint[], p_group text, p_from bigint, p_to bigint) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    v_ids  bigint[];
    v_seqs bigint[];
begin
    select array_agg(n.partition_id order by n.partition_id), array_agg(n.seq order by n.partition_id) into v_ids, v_seqs
      from (select m.partition_id, max(m.seq) as seq
              from queen.messages m join queen.partitions p on p.id = m.partition_id
             where m.pos >= p_from and m.pos < p_to and p.queue_id = any (p_queues)
             group by m.partition_id) n;
    perform from queen.partition_consumers c
      where c.partition_id = any (v_ids) and c.consumer_group = p_group order by c.partition_id for no key update;
    select array_agg(n.id), array_agg(n.seq) into v_ids, v_seqs
      from unnest(v_ids, v_seqs) n(id, seq)
      join queen.partition_consumers c on c.partition_id = n.id and c.consumer_group = p_group
     where c.last_consumed_seq < n.seq and c.lease_id is null;
    return (select count(*) from queen.move_cursors(v_ids, array_fill(p_group, array[coalesce(cardinality(v_ids), 0)]), null, v_seqs));
end $$;
