-- Promises: remembers the pos of the newest message at or below p_seq, which is about to be removed together with all before it, so that
--   a reader by position can tell that something is gone which it has not read.
-- Locks: nothing more than the caller holds (the partition row), and the partition's row of queen.removals.
create or replace function queen.note_removal(p_partition bigint, p_seq bigint) returns void
language plpgsql volatile as $$
begin
    insert into queen.removals as r (partition_id, queue_id, number, pos)
    select p.id, p.queue_id, nextval('queen.removal_number'), m.pos
      from queen.partitions p
     cross join lateral (select x.pos from queen.messages x
                          where x.partition_id = p.id and x.seq <= p_seq order by x.seq desc limit 1) m
     where p.id = p_partition
        on conflict (partition_id) do update set number = excluded.number, pos = greatest(r.pos, excluded.pos);
end $$;
