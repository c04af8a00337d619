-- Promises: the consumer rows named, locked in the order of their keys; those that do not exist, or with p_wait false are held by someone
--   else, are missing. Rows are found one by one in that order (R14: no plan can do worse).
-- Locks: the consumer rows returned, by (partition, group).
create or replace function queen.lock_lanes(p_partition bigint[], p_group text[], p_wait boolean) returns table (partition_id bigint)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    if p_wait then
        return query
            select c.partition_id from (select u.* from unnest(p_partition, p_group) u(id, name) order by u.id, u.name) e
             cross join lateral (select x.partition_id from queen.partition_consumers x
                                  where x.partition_id = e.id and x.consumer_group = e.name limit 1
                                    for no key update) c;
    else
        return query
            select c.partition_id from (select u.* from unnest(p_partition, p_group) u(id, name) order by u.id, u.name) e
             cross join lateral (select x.partition_id from queen.partition_consumers x
                                  where x.partition_id = e.id and x.consumer_group = e.name limit 1
                                    for no key update skip locked) c;
    end if;
end $$;
