-- Promises: how many messages from one seq up to, not including, another a group (null: any) skips.
-- Locks: nothing.
create or replace function queen.count_skips(p_partition bigint, p_group text, p_from bigint, p_to bigint) returns bigint
language sql stable as $$
    select count(distinct s.seq) from queen.skips s
     where s.partition_id = p_partition and s.consumer_group in ('*', p_group) and s.seq >= p_from and s.seq < p_to
$$;
