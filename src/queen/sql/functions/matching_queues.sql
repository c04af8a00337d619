-- Promises: the queues of a namespace and/or task (null or '' = any) that a pop of the group should try now, in this order: higher
--   priority first, then by name. Left out are those that are paused or have nothing ready; those the group has not met yet are in.
-- Locks: nothing.
create or replace function queen.matching_queues(p_namespace text, p_task text, p_group text) returns setof text
language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
set jit = off set plan_cache_mode = force_generic_plan as $$
declare
    v_now timestamptz := queen.clock();
begin
    return query
        select q.name from queen.queues q
         where (coalesce(p_namespace, '') = '' or q.namespace = p_namespace)
           and (coalesce(p_task, '') = '' or q.task = p_task)
           and not q.paused
           and (not exists (select from queen.subscriptions s where s.queue_id = q.id and s.consumer_group = p_group and s.filled)
                or exists (select from queen.partition_consumers c
                            where c.queue_id = q.id and c.consumer_group = p_group and c.ready_at <= v_now))
         order by q.priority desc, q.name;
end $$;
