-- Promises: queen.pop_lanes with one row per message, for people and programs that speak SQL. The first row (request 0) says how it went:
--   state, next_ready_at, mark, the queue's id as partition_id and the time as created_at.
-- Locks: as queen.pop_lanes.
create or replace function queen.pop(
    p_queue text, p_group text, p_batch integer[], p_partitions integer[], p_lease uuid[],
    p_partition text default null, p_lease_seconds integer default null, p_auto_ack boolean default false,
    p_mark timestamptz default null
) returns table (request integer, state text, next_ready_at timestamptz, mark timestamptz, partition_id bigint, partition_name text,
                 seq bigint, message_id uuid, transaction_id text, trace_id uuid, parent_id uuid, payload jsonb,
                 created_at timestamptz, is_encrypted boolean, producer_sub text, retry_count integer, delivery_count integer,
                 lease_expires_at timestamptz)
language sql volatile as $$
    select l.request, l.state, l.next_ready_at, l.mark, l.partition_id, l.partition_name,
           coalesce(m.seq, l.first_seq + m.place - 1), m.id, coalesce(m.transaction_id, m.id::text), m.trace_id, m.parent_id, m.payload,
           coalesce(m.created_at, l.started_at), case when m.place is not null then coalesce(m.encrypted, false) end, m.producer_sub,
           l.retry_count, l.delivery_count, l.lease_expires_at
      from queen.pop_lanes(p_queue, p_group, p_batch, p_partitions, p_lease, p_partition, p_lease_seconds, p_auto_ack, p_mark)
           with ordinality l(request, state, next_ready_at, mark, started_at, lease_expires_at, partition_id, partition_name, retry_count,
                             delivery_count, first_seq, seqs, message_ids, payloads, created_ats, transaction_ids, trace_ids, parent_ids,
                             encrypted, producer_subs, line)
      left join lateral unnest(l.message_ids, l.payloads, l.created_ats, l.transaction_ids, l.trace_ids, l.parent_ids, l.encrypted,
                               l.producer_subs, l.seqs)
           with ordinality m(id, payload, created_at, transaction_id, trace_id, parent_id, encrypted, producer_sub, seq, place) on true
     order by l.line, m.place
$$;
