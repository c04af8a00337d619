-- Promises: when the next item that is locked or delayed comes back, or the next session lapses, and whether a wanted item without
--   session is ready now.
-- Locks: nothing.
create or replace function queen_durable.due_work_items(p_wanted queen_durable.wanted_tasks, p_now bigint)
returns table (ready_at bigint, again boolean)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off as $$
#variable_conflict use_column
begin
    if p_wanted.unknown_ms is not null then
        return query select null::bigint, false;
        return;
    end if;
    return query
    select least(
               (select w.ready_at from queen_durable.work_items w
                where w.ready_at > p_now
                order by w.ready_at limit 1),
               (select min(s.locked_until) from queen_durable.sessions s
                where s.locked_until > p_now
                  and exists (select from queen_durable.work_items w where w.session_id = s.session_id))
           ),
           case
               when p_wanted.tags is null then exists (
                   select from unnest(p_wanted.names) as wanted (name)
                   cross join lateral (
                       select from queen_durable.work_items w
                       where w.name = wanted.name and w.ready_at <= p_now and w.session_id is null
                       order by w.priority desc, w.ready_at, w.id limit 1
                   ) as waiting
               )
               else exists (
                   select from unnest(p_wanted.names) as wanted (name)
                   cross join unnest(p_wanted.tags) as labelled (tag)
                   cross join lateral (
                       select from queen_durable.work_items w
                       where w.name = wanted.name and w.tag = labelled.tag and w.ready_at <= p_now
                         and w.session_id is null
                       order by w.priority desc, w.ready_at, w.id limit 1
                   ) as waiting
               )
           end;
end $$;
