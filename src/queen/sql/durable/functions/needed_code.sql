-- Promises: all the code that keys with messages, or queued activities, need: for a fetch that takes anything. Reads one row per name,
--   not per key.
-- Locks: nothing.
create or replace function queen_durable.needed_handlers() returns text[]
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off as $$
    with recursive needed as (
        (select k.handler from queen_durable.mailbox_keys k
         where k.queue = 'orchestrator' and k.ready_at is not null
         order by k.queue, k.handler limit 1)
        union all
        select later.handler
        from needed
        cross join lateral (
            select k.handler from queen_durable.mailbox_keys k
            where k.queue = 'orchestrator' and k.handler > needed.handler and k.ready_at is not null
            order by k.queue, k.handler limit 1
        ) as later
    )
    select coalesce(array_agg(handler), array[]::text[]) from needed
$$;

create or replace function queen_durable.needed_activities() returns text[]
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off as $$
    with recursive needed as (
        (select w.name from queen_durable.work_items w order by w.name limit 1)
        union all
        select later.name
        from needed
        cross join lateral (
            select w.name from queen_durable.work_items w where w.name > needed.name order by w.name limit 1
        ) as later
    )
    select coalesce(array_agg(name), array[]::text[]) from needed
$$;
