-- Promises: stores one message inside the caller's own transaction and returns its id (the transactional outbox). The same transaction
--   id in the same partition is stored once: the first one's id comes back. Raises QUEUE_FULL, ENCRYPTION_REQUIRED, INVALID_*.
--   deliver_at in the future: kept aside until then. Works in a transaction that is prepared (PREPARE TRANSACTION), too.
-- Locks: as queen.push_messages, until the caller's transaction ends. Other partitions are not held up.
create or replace function queen.push(
    queue text, partition text, payload jsonb, transaction_id text default null, trace_id uuid default null,
    deliver_at timestamptz default null, parent_id uuid default null
) returns uuid
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_id    uuid := queen.uuid7();
    v_row   record;
begin
    perform queen.require_name('queue', push.queue), queen.require_item(push.partition, push.transaction_id);
    select * into v_row from queen.push_messages(
        array[push.queue], array[coalesce(push.partition, 'Default')], array[1], array[0], array[v_id], array[push.payload],
        array[push.transaction_id], array[push.trace_id], array[push.parent_id],
        case when push.deliver_at is not null then array[push.deliver_at] end, null,
        array[push.payload ?& array['encrypted', 'iv', 'authTag']
              and exists (select from queen.queues q where q.name = push.queue and q.encryption_enabled)]);
    if v_row.status = 'full' then
        perform queen.raise_full(push.queue, v_row.depth, v_row.queue_limit);
    end if;
    if v_row.woken or v_row.seq = 1 then  -- a first message may be waited for by a group that has no cursor there yet
        perform queen.wake(v_row.queue_id);
    end if;
    return coalesce(v_row.message_id, v_id);
end $$;
