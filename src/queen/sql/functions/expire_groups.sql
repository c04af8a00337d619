-- Promises: forgets, queue by queue, up to p_limit groups that have not asked for messages for p_unused, so that they no longer hold back
--   retention and limits; queue mode never. One that comes back starts anew. Returns how many went.
-- Locks: as queen.forget_group.
create or replace function queen.expire_groups(p_unused interval, p_limit integer default 10) returns bigint
language plpgsql volatile as $$
declare
    v_since timestamptz := queen.clock() - p_unused;
    v_count bigint := 0;
    s       record;
begin
    for s in
        select x.consumer_group, q.name from queen.subscriptions x join queen.queues q on q.id = x.queue_id
         where x.used_at < v_since and x.consumer_group <> '__QUEUE_MODE__' order by x.queue_id, x.consumer_group limit p_limit
    loop
        perform queen.forget_group(s.consumer_group, s.name, true, v_since);
        v_count := v_count + 1;
    end loop;
    return v_count;
end $$;
