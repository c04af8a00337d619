-- Promises: the ids of up to p_limit items that may be handed out now, best first; the items of a session only when it is free or
--   held by p_owner. p_tags null takes any tag.
-- Locks: the rows of the items; those another session is just taking are skipped.
create or replace function queen_durable.ready_work_items(
    p_limit integer, p_tags text[], p_owner text, p_now bigint
) returns bigint[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
begin
    if p_tags is null then
        return array(
            select w.id from queen_durable.work_items w
            where w.ready_at <= p_now
              and (w.session_id is null or (p_owner is not null and not exists (
                select from queen_durable.sessions s
                where s.session_id = w.session_id and s.locked_until > p_now and s.owner <> p_owner
              )))
            order by w.priority desc, w.ready_at, w.id
            limit p_limit
            for update of w skip locked
        );
    end if;
    return array(
        select found.id
        from unnest(p_tags) as wanted (tag)
        cross join lateral (
            select w.id, w.priority, w.ready_at
            from queen_durable.work_items w
            where w.tag = wanted.tag and w.ready_at <= p_now
              and (w.session_id is null or (p_owner is not null and not exists (
                select from queen_durable.sessions s
                where s.session_id = w.session_id and s.locked_until > p_now and s.owner <> p_owner
              )))
            order by w.priority desc, w.ready_at, w.id
            limit p_limit
            for update of w skip locked
        ) as found
        order by found.priority desc, found.ready_at, found.id
        limit p_limit
    );
end $$;
