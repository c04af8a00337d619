-- Promises: stores the items at v_base + rank of their lane, in the order given, so that pos grows with seq within a partition.
--   Raises unique_violation on a transaction id that is already there. Planned under the settings of queen.push_messages.
-- Locks: nothing more than the caller holds.
create or replace function queen.insert_messages(
    p_lane integer[], p_rank integer[], p_id uuid[], p_payload jsonb[], p_transaction_id text[], p_trace_id uuid[], p_parent_id uuid[],
    p_producer_sub text[], p_encrypted boolean[], p_ids bigint[], p_base bigint[], p_last timestamptz[], p_now timestamptz
) returns void
language plpgsql volatile as $$
begin
    insert into queen.messages (partition_id, seq, pos, id, trace_id, parent_id, created_at, is_encrypted, transaction_id,
                                producer_sub, payload)
    select p_ids[i.lane], p_base[i.lane] + i.rank, nextval('queen.message_pos'), i.id, i.trace_id, i.parent_id,
           greatest(p_now, p_last[i.lane]), coalesce(i.encrypted, false), i.transaction_id, i.producer_sub,
           coalesce(i.payload, 'null')
      from unnest(p_lane, p_rank, p_id, p_payload, p_transaction_id, p_trace_id, p_parent_id, p_producer_sub, p_encrypted)
           i(lane, rank, id, payload, transaction_id, trace_id, parent_id, producer_sub, encrypted);
end $$;
