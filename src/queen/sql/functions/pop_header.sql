-- Promises: the first row of queen.pop_lanes: how it went.
-- Locks: nothing.
create or replace function queen.pop_header(
    p_state text, p_next timestamptz, p_mark timestamptz, p_queue_id bigint, p_now timestamptz, p_expires timestamptz
) returns table (request integer, state text, next_ready_at timestamptz, mark timestamptz, started_at timestamptz,
                 lease_expires_at timestamptz, partition_id bigint, partition_name text, retry_count integer, delivery_count integer,
                 first_seq bigint, seqs bigint[], message_ids uuid[], payloads jsonb[], created_ats timestamptz[],
                 transaction_ids text[], trace_ids uuid[], parent_ids uuid[], encrypted boolean[], producer_subs text[])
language sql stable as $$
    select 0, p_state, p_next, p_mark, p_now, p_expires, p_queue_id, null::text, null::integer, null::integer, null::bigint,
           null::bigint[], null::uuid[], null::jsonb[], null::timestamptz[], null::text[], null::uuid[], null::uuid[], null::boolean[],
           null::text[]
$$;
