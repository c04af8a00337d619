-- Promises: the first row of queen.pop: how it went.
-- Locks: nothing.
create or replace function queen.pop_header(
    p_state text, p_next timestamptz, p_mark timestamptz, p_queue_id bigint, p_now timestamptz, p_expires timestamptz
) returns table (request integer, state text, next_ready_at timestamptz, mark timestamptz, partition_id bigint, partition_name text,
                 seq bigint, message_id uuid, transaction_id text, trace_id uuid, parent_id uuid, payload jsonb,
                 created_at timestamptz, is_encrypted boolean, producer_sub text, retry_count integer, delivery_count integer,
                 lease_expires_at timestamptz)
language sql stable as $$
    select 0, p_state, p_next, p_mark, p_queue_id, null::text, null::bigint, null::uuid, null::text, null::uuid, null::uuid, null::jsonb,
           p_now, null::boolean, null::text, null::integer, null::integer, p_expires
$$;
