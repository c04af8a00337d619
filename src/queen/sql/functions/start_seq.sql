-- Promises: where a registered group's cursor starts in a partition, by how the group started. p_head: the head of the partition committed
--   when the group was registered, null if it did not exist; a group that starts anew with its old subscription to new messages (the
--   heads are forgotten by then) starts at the time of that subscription.
-- Locks: nothing.
create or replace function queen.start_seq(s queen.subscriptions, p queen.partitions, p_head bigint) returns bigint
language sql stable as $$
    select greatest(p.first_seq - 1, case s.mode
               when 'all' then 0
               when 'new' then coalesce(p_head, case when s.head_partitions is null then queen.seq_at(p.id, s.start_at) else 0 end)
               else queen.seq_at(p.id, s.start_at) end)
$$;
