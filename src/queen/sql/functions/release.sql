-- Promises: hands leases back, uncounted: what was not acknowledged is delivered again, in order, after p_delay_ms. Returns how many
--   partitions each lease gave back; 0 when it is not there any more.
-- Locks: consumer rows of the leases, by (partition, group).
create or replace function queen.release(p_lease uuid[], p_delay_ms integer default 0)
returns table (entry integer, released bigint, queue_ids bigint[])
language plpgsql volatile
set enable_seqscan = off set jit = off as $$
declare
    v_now timestamptz;
begin
    perform from queen.partition_consumers c where c.lease_id = any (p_lease)
      order by c.partition_id, c.consumer_group for no key update;
    v_now := queen.clock();
    insert into queen.deliveries (queue_id, partition_id, batch_from, batch_to, leased_at, ended_at, retry_count, failed, lease_id,
                                  outcome, consumer_group)
    select c.queue_id, c.partition_id, c.batch_from, c.batch_to, c.lease_acquired_at, v_now, c.retry_count, 0, c.lease_id, 'released',
           c.consumer_group
      from queen.partition_consumers c join queen.queues q on q.id = c.queue_id
     where c.lease_id = any (p_lease) and q.delivery_log;
    return query
        with given as (
            update queen.partition_consumers c
               set lease_id = null, ready_at = v_now + make_interval(secs => p_delay_ms / 1000.0), idle_ms = 0
              from unnest(p_lease) with ordinality l(id, place)
             where c.lease_id = l.id
            returning l.place, c.queue_id
        )
        select l.place::integer, count(g.place), coalesce(array_agg(distinct g.queue_id) filter (where g.queue_id is not null), '{}')
          from unnest(p_lease) with ordinality l(id, place) left join given g on g.place = l.place
         group by l.place order by l.place;
end $$;
