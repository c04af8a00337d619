-- Where rows of the target arrive before they are written back.
create temporary table if not exists back_partitions (former_id uuid, queue_name text, name text, created_at timestamptz, last_activity timestamptz);
create temporary table if not exists back_groups (queue_name text, consumer_group text, mode text, start_at timestamptz, created_at timestamptz);
create temporary table if not exists back_messages (
    former_id uuid, seq bigint, id uuid, transaction_id text, trace_id uuid, payload jsonb, created_at timestamptz, is_encrypted boolean, producer_sub text);
create temporary table if not exists back_states (
    former_id uuid, consumer_group text, position_id uuid, next_id uuid, last_created_at timestamptz, skipped uuid[], lease_token text,
    lease_expires_at timestamptz, lease_acquired_at timestamptz, batch uuid[], retry_count integer, consumed bigint, batches bigint,
    last_consumed_at timestamptz);
create temporary table if not exists back_dead_letters (
    former_id uuid, consumer_group text, message_id uuid, error_message text, retry_count integer, created_at timestamptz, failed_at timestamptz);
create temporary table if not exists back_firsts (former_id uuid, next_id uuid);
create temporary table if not exists back_kept (former_id uuid, message_id uuid);
create temporary table if not exists back_gone (former_id uuid, consumer_group text);
truncate back_partitions, back_groups, back_messages, back_states, back_dead_letters, back_firsts, back_kept, back_gone
