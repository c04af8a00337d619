-- Promises: copies messages, with their payloads, to the dead letters of a group, each with its own error or else p_error, and what the
--   error has in common with others. Skipped messages are left out. Returns how many were copied.
-- Locks: nothing (inserts).
create or replace function queen.dead_letter(
    p_queue_id bigint, p_partition bigint, p_group text, p_seqs bigint[], p_errors text[], p_error text, p_retries integer,
    p_evicted boolean, p_now timestamptz
) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off set jit = off as $$
declare
    v_kind  constant text := queen.normalise_error(p_error);
    v_count bigint;
begin
    insert into queen.dead_letter_queue (queue_id, partition_id, consumer_group, seq, message_id, transaction_id, trace_id, parent_id,
                                         payload, is_encrypted, producer_sub, created_at, error_message, error_kind, retry_count, evicted, failed_at)
    select p_queue_id, p_partition, p_group, m.seq, m.id, coalesce(m.transaction_id, m.id::text), m.trace_id, m.parent_id, m.payload,
           m.is_encrypted, m.producer_sub, m.created_at, coalesce(d.error, p_error),
           case when d.error is null then v_kind else queen.normalise_error(d.error) end, p_retries, p_evicted, p_now
      from unnest(p_seqs, p_errors) with ordinality d(seq, error, place)
     cross join lateral (select x.* from queen.messages x where x.partition_id = p_partition and x.seq = d.seq limit 1) m
     where not exists (select from queen.skips s where s.partition_id = p_partition and s.seq = d.seq
                          and s.consumer_group in ('*', p_group))
     order by d.place;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
