-- Promises: the partitions a lease holds, as arrays: ids, groups, and the first and last seq that is still to be finished; with
--   p_message only its partition, up to that message. Raises LEASE_LOST when nothing is under the lease any more, MESSAGE_NOT_FOUND.
-- Locks: the consumer rows of the lease, by (partition, group).
create or replace function queen.leased_range(
    p_lease uuid, p_message uuid, out ids bigint[], out groups text[], out first bigint[], out last bigint[])
language plpgsql volatile
set enable_seqscan = off set jit = off as $$
begin
    perform from queen.partition_consumers c where c.lease_id = p_lease order by c.partition_id, c.consumer_group for no key update;
    if not found then
        perform queen.raise_error('LEASE_LOST', 'the lease ended and was given on, or handed back; nothing was changed');
    end if;
    select array_agg(c.partition_id), array_agg(c.consumer_group), array_agg(greatest(c.batch_from, c.last_consumed_seq + 1)),
           array_agg(coalesce(m.seq, c.batch_to))
      into ids, groups, first, last
      from queen.partition_consumers c
      left join queen.messages m on m.id = p_message and m.partition_id = c.partition_id and m.seq between c.batch_from and c.batch_to
     where c.lease_id = p_lease and (p_message is null or m.seq is not null);
    if ids is null then
        perform queen.raise_error('MESSAGE_NOT_FOUND', format('the lease holds no message %L', p_message));
    end if;
end $$;
