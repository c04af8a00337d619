-- Promises: adds the cursor rows of a registered group for the next p_chunk partitions; returns true while there are more. Safe to run
--   from several processes.
-- Locks: the subscription row, then as queen.add_cursors.
create or replace function queen.fill_subscription(p_queue text, p_group text, p_chunk integer default 2000) returns boolean
language plpgsql volatile as $$
declare
    s     queen.subscriptions;
    v_ids bigint[];
begin
    select x.* into s from queen.subscriptions x join queen.queues q on q.id = x.queue_id
     where q.name = p_queue and x.consumer_group = p_group for no key update of x;
    if not found or s.filled then
        return false;
    end if;
    v_ids := array(select p.id from queen.partitions p where p.queue_id = s.queue_id and p.id > s.filled_to order by p.id limit p_chunk);
    perform queen.add_cursors(s, v_ids);
    update queen.subscriptions x
       set filled_to = coalesce(v_ids[cardinality(v_ids)], x.filled_to), filled = cardinality(v_ids) = 0,
           head_partitions = case when cardinality(v_ids) > 0 or not x.settled then x.head_partitions end,
           head_seqs = case when cardinality(v_ids) > 0 or not x.settled then x.head_seqs end
     where x.queue_id = s.queue_id and x.consumer_group = p_group;
    return cardinality(v_ids) > 0;
end $$;
