-- Where rows of the source arrive before they are given their place.
create temporary table if not exists incoming_partitions (
    former_id uuid, queue_name text, name text, created_at timestamptz, last_activity timestamptz, expected bigint);
create temporary table if not exists incoming_groups (
    queue_name text, consumer_group text, mode text, start_at timestamptz, created_at timestamptz);
create temporary table if not exists incoming_messages (
    partition_id bigint, seq bigint, pos bigint, id uuid, trace_id uuid, parent_id uuid, created_at timestamptz, is_encrypted boolean,
    transaction_id text, producer_sub text, payload jsonb);
create temporary table if not exists incoming_states (
    partition_id bigint, queue_id bigint, consumer_group text, position_at timestamptz, position_id uuid, before boolean,
    skipped_at timestamptz[], skipped_id uuid[], lease_token text, lease_expires_at timestamptz, lease_acquired_at timestamptz,
    from_at timestamptz, from_id uuid, to_at timestamptz, to_id uuid, batch_count integer, retry_count integer, consumed bigint,
    batches bigint, last_consumed_at timestamptz);
create temporary table if not exists incoming_dead_letters (
    partition_id bigint, consumer_group text, message_id uuid, created_at timestamptz, gone boolean, error_message text,
    retry_count integer, failed_at timestamptz);
create temporary table if not exists incoming_traces (
    partition_id bigint, transaction_id text, message_id uuid, consumer_group text, event_type text, data jsonb, created_at timestamptz,
    names text[]);
