-- Promises: how many messages of the queues lie in [p_from, p_to), or p_most when there are more.
-- Locks: nothing.
create or replace function queen.count_messages(p_queues bigint[], p_from bigint, p_to bigint, p_most bigint) returns bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
    select count(*) from (
        select from queen.messages m join queen.partitions p on p.id = m.partition_id
         where m.pos >= p_from and m.pos < p_to and p.queue_id = any (p_queues)
         order by m.pos limit p_most) n
$$;
