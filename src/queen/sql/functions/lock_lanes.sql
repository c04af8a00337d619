-- Promises: the lanes named, locked, in the order of their keys, with what an acknowledgement needs to decide. Lanes that do not exist,
--   or with p_wait false are held by someone else, are missing. Heads are read plainly.
--   Rows are found one by one in that order (R14: no plan can do worse) and `place` is where each is, for the update that follows.
-- Locks: the consumer rows returned, by (partition, group).
create or replace function queen.lock_lanes(p_partition bigint[], p_group text[], p_wait boolean)
returns table (entry integer, place tid, partition_id bigint, consumer_group text, queue_id bigint, cursor bigint, batch_from bigint,
               batch_to bigint, lease_id uuid, lease_acquired_at timestamptz, idle_ms integer, next_seq bigint, delivery_log boolean)
language plpgsql volatile as $$
begin
    if p_wait then
        return query
            select e.entry::integer, c.place, c.partition_id, c.consumer_group, c.queue_id, c.last_consumed_seq, c.batch_from, c.batch_to,
                   c.lease_id, c.lease_acquired_at, c.idle_ms, p.next_seq, q.delivery_log
              from (select u.* from unnest(p_partition, p_group) with ordinality u(id, name, entry) order by u.id, u.name) e
             cross join lateral (select x.ctid as place, x.* from queen.partition_consumers x
                                  where x.partition_id = e.id and x.consumer_group = e.name limit 1
                                    for no key update) c
             cross join lateral (select x.next_seq from queen.partitions x where x.id = c.partition_id limit 1) p
             cross join lateral (select x.delivery_log from queen.queues x where x.id = c.queue_id limit 1) q;
    else
        return query
            select e.entry::integer, c.place, c.partition_id, c.consumer_group, c.queue_id, c.last_consumed_seq, c.batch_from, c.batch_to,
                   c.lease_id, c.lease_acquired_at, c.idle_ms, p.next_seq, q.delivery_log
              from (select u.* from unnest(p_partition, p_group) with ordinality u(id, name, entry) order by u.id, u.name) e
             cross join lateral (select x.ctid as place, x.* from queen.partition_consumers x
                                  where x.partition_id = e.id and x.consumer_group = e.name limit 1
                                    for no key update skip locked) c
             cross join lateral (select x.next_seq from queen.partitions x where x.id = c.partition_id limit 1) p
             cross join lateral (select x.delivery_log from queen.queues x where x.id = c.queue_id limit 1) q;
    end if;
end $$;
