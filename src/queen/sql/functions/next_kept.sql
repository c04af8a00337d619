-- Promises: the first message from p_from to p_to that is there and that the group does not skip; null when there is none.
-- Locks: nothing.
create or replace function queen.next_kept(p_partition bigint, p_group text, p_from bigint, p_to bigint) returns bigint
language sql stable as $$
    select m.seq from queen.messages m
     where m.partition_id = p_partition and m.seq between p_from and p_to
       and not exists (select from queen.skips s where s.partition_id = p_partition and s.seq = m.seq
                          and s.consumer_group in ('*', p_group))
     order by m.seq limit 1
$$;
