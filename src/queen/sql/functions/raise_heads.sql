-- Promises: next_seq of each partition goes up by the number of messages just stored there, and lanes with nothing waiting become
--   ready (after the queue's delay). Returns the partitions of which some group had nothing waiting until now.
--   Joined by hash, so that a hundred thousand partitions cost a hundred thousand steps (R14).
-- Locks: consumer rows of the partitions where ready_at is null. The caller holds the partition rows.
create or replace function queen.raise_heads(p_ids bigint[], p_counts bigint[], p_delays double precision[], p_now timestamptz)
returns bigint[]
language plpgsql volatile set enable_hashjoin = on set enable_nestloop = off as $$
declare
    v_woken bigint[];
begin
    update queen.partitions p
       set next_seq = p.next_seq + n.n, last_created_at = greatest(p_now, p.last_created_at), last_activity = p_now,
           oldest_at = coalesce(p.oldest_at, greatest(p_now, p.last_created_at)), idle_since = null
      from unnest(p_ids, p_counts) n(id, n)
     where p.id = n.id and p.id = any (p_ids) and n.n > 0;
    with woken as (
        update queen.partition_consumers c
           set ready_at = p_now + make_interval(secs => n.delay), idle_ms = 0
          from unnest(p_ids, p_counts, p_delays) n(id, n, delay)
         where c.partition_id = n.id and c.partition_id = any (p_ids) and n.n > 0 and c.ready_at is null
        returning c.partition_id
    )
    select coalesce(array_agg(distinct partition_id), '{}') into v_woken from woken;
    return v_woken;
end $$;
