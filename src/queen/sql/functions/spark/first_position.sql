-- Promises: the pos of the first message of the queues in [p_from, p_to), null when there is none.
-- Locks: nothing.
create or replace function queen.first_position(p_queues bigint[], p_from bigint, p_to bigint) returns bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    select m.pos from queen.messages m join queen.partitions p on p.id = m.partition_id
     where m.pos >= p_from and m.pos < p_to and p.queue_id = any (p_queues)
     order by m.pos limit 1
$$;
