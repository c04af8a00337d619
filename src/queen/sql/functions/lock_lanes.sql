-- Promises: the lanes named, locked, in the order of their keys, with what an acknowledgement needs to know of them. Lanes that do not
--   exist, or with p_wait false are held by someone else, are missing. Heads are read plainly.
--   Rows are found one by one in that order (R14: no plan can do worse).
-- Locks: the consumer rows returned, by (partition, group).
create or replace function queen.lock_lanes(p_partition bigint[], p_group text[], p_wait boolean)
returns table (partition_id bigint, queue_id bigint, batch_from bigint, batch_to bigint, lease_id uuid, next_seq bigint)
language plpgsql volatile as $$
begin
    if p_wait then
        return query
            select c.partition_id, c.queue_id, c.batch_from, c.batch_to, c.lease_id, p.next_seq
              from (select u.* from unnest(p_partition, p_group) u(id, name) order by u.id, u.name) e
             cross join lateral (select x.* from queen.partition_consumers x
                                  where x.partition_id = e.id and x.consumer_group = e.name limit 1
                                    for no key update) c
             cross join lateral (select x.next_seq from queen.partitions x where x.id = c.partition_id limit 1) p;
    else
        return query
            select c.partition_id, c.queue_id, c.batch_from, c.batch_to, c.lease_id, p.next_seq
              from (select u.* from unnest(p_partition, p_group) u(id, name) order by u.id, u.name) e
             cross join lateral (select x.* from queen.partition_consumers x
                                  where x.partition_id = e.id and x.consumer_group = e.name limit 1
                                    for no key update skip locked) c
             cross join lateral (select x.next_seq from queen.partitions x where x.id = c.partition_id limit 1) p;
    end if;
end $$;
