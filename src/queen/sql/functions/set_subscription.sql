-- Promises: changes where a group starts, on every queue that knows it: from a time. Cursors it already has stay where they are; it
--   applies when the group meets a queue anew (its cursors were deleted). Returns how many subscriptions changed.
-- Locks: the subscription rows.
create or replace function queen.set_subscription(p_group text, p_time timestamptz) returns bigint
language plpgsql volatile as $$
declare
    v_count bigint;
begin
    perform from queen.subscriptions where consumer_group = p_group order by queue_id for no key update;
    update queen.subscriptions set mode = 'timestamp', start_at = p_time, head_partitions = null, head_seqs = null
     where consumer_group = p_group;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
