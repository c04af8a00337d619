-- Promises: what the leases hold failed: one retry is counted for the first message that is left in each partition, and it is delivered
--   again, in order, after p_delay_ms. The limit is the caller's: nothing becomes a dead letter here. Returns how many partitions each
--   lease gave back; 0 when it is not there any more.
-- Locks: consumer rows of the leases, by (partition, group).
create or replace function queen.fail_leases(p_lease uuid[], p_delay_ms integer)
returns table (entry integer, released bigint, queue_ids bigint[])
language plpgsql volatile
set enable_seqscan = off set jit = off as $$
begin
    perform from queen.partition_consumers x where x.lease_id = any (p_lease)
      order by x.partition_id, x.consumer_group for no key update;
    return query
        with held as materialized (
            select c.partition_id, c.consumer_group, c.lease_id, c.last_consumed_seq, c.retry_count, c.counted_to,
                   queen.next_kept(c.partition_id, c.consumer_group, c.last_consumed_seq + 1, c.batch_to) as seq
              from queen.partition_consumers c where c.lease_id = any (p_lease)
        ), given as (
            select h.lease_id, m.queue_id
              from held h
             cross join lateral queen.move_cursors(
                   array[h.partition_id], array[h.consumer_group], array[h.lease_id],
                   array[coalesce(h.seq - 1, h.last_consumed_seq)], p_outcome => 'failed', p_over => true, p_acked => false,
                   p_ready => queen.clock() + make_interval(secs => p_delay_ms / 1000.0), p_failed => 1,
                   p_retries => case when h.seq <= h.counted_to then h.retry_count else 0 end + 1, p_counted_to => h.seq) m
             where m.released
        )
        select l.place::integer, count(g.lease_id), coalesce(array_agg(distinct g.queue_id) filter (where g.queue_id is not null), '{}')
          from unnest(p_lease) with ordinality l(id, place) left join given g on g.lease_id = l.id
         group by l.place order by l.place;
end $$;
