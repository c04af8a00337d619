-- Promises: applies retention to the next p_chunk partitions of a queue that hold messages, in the order of their ids after p_after.
--   Returns the last partition looked at (null: there was none) and how many messages went. One transaction per chunk keeps locks short.
-- Locks: as queen.retain_partition, one partition after the other.
create or replace function queen.retain_queue(p_queue_id bigint, p_after bigint, p_chunk integer default 100)
returns table (last_partition bigint, removed bigint)
language plpgsql volatile as $$
declare
    p record;
begin
    removed := 0;
    for p in
        select x.id from queen.partitions x
         where x.queue_id = p_queue_id and x.id > p_after and x.first_seq < x.next_seq
         order by x.id limit p_chunk
    loop
        last_partition := p.id;
        removed := removed + queen.retain_partition(p.id);
    end loop;
    return next;
end $$;
