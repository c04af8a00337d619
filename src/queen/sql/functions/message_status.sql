-- Promises: where one message stands: dead_letter while a dead letter of it has not been redriven, completed once the slowest known group
--   has passed it, processing inside one of the given leased ranges, else pending.
-- Locks: nothing.
create or replace function queen.message_status(p_partition bigint, p_seq bigint, p_slowest bigint, p_leased int8multirange) returns text
language sql stable as $$
    select case when exists (select from queen.dead_letter_queue d
                              where d.partition_id = p_partition and d.seq = p_seq and d.redriven_at is null) then 'dead_letter'
                when p_seq <= p_slowest then 'completed'
                when p_leased @> p_seq then 'processing'
                else 'pending' end
$$;
