-- Promises: the ids of up to p_wanted.most items that may be handed out now, best first: of the names in p_wanted.names, or,
--   with unknown_ms, those that waited for so long for code no worker has announced since; the items of a session only when it is
--   free or held by the owner. Tags null takes any tag.
-- Locks: the rows of the items; those another session is just taking are skipped.
create or replace function queen_durable.ready_work_items(
    p_wanted queen_durable.wanted_tasks, p_now bigint
) returns bigint[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
begin
    if p_wanted.unknown_ms is not null then
        return array(
            select w.id from queen_durable.work_items w
            where w.ready_at <= p_now - p_wanted.unknown_ms and w.name <> ''
              and not exists (
                select from queen_durable.handlers known
                where known.queue = 'worker' and known.name = w.name and known.seen_at > p_now - p_wanted.unknown_ms
              )
              and queen_durable.is_open(w.session_id, p_wanted.owner, p_now)
            order by w.priority desc, w.ready_at, w.id
            limit p_wanted.most
            for update of w skip locked
        );
    elsif p_wanted.tags is null then
        return array(
            select found.id
            from unnest(p_wanted.names) as wanted (name)
            cross join lateral (
                select w.id, w.priority, w.ready_at
                from queen_durable.work_items w
                where w.name = wanted.name and w.ready_at <= p_now
                  and (w.session_id is null or queen_durable.is_open(w.session_id, p_wanted.owner, p_now))
                order by w.priority desc, w.ready_at, w.id
                limit p_wanted.most
                for update of w skip locked
            ) as found
            order by found.priority desc, found.ready_at, found.id
            limit p_wanted.most
        );
    end if;
    return array(
        select found.id
        from unnest(p_wanted.names) as wanted (name)
        cross join unnest(p_wanted.tags) as labelled (tag)
        cross join lateral (
            select w.id, w.priority, w.ready_at
            from queen_durable.work_items w
            where w.name = wanted.name and w.tag = labelled.tag and w.ready_at <= p_now
              and (w.session_id is null or queen_durable.is_open(w.session_id, p_wanted.owner, p_now))
            order by w.priority desc, w.ready_at, w.id
            limit p_wanted.most
            for update of w skip locked
        ) as found
        order by found.priority desc, found.ready_at, found.id
        limit p_wanted.most
    );
end $$;
