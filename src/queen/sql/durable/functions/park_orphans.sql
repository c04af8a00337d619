-- Promises: puts aside the messages just handed out for instances that do not exist and have no start among them: they wait for
--   it, and expire_orphans looks after those it never comes for. A parked key becomes ready again when something arrives for it,
--   or when its start is due. Returns the keys it parked.
-- Locks: the caller holds the keys.
create or replace function queen_durable.park_orphans(p_keys text[]) returns text[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_orphans text[];
begin
    select array_agg(k.routing_key)
    into v_orphans
    from queen_durable.mailbox_keys k
    where k.queue = 'orchestrator' and k.routing_key = any (p_keys)
      and not exists (select from queen_durable.instances i where i.instance = k.routing_key)
      and not exists (
        select from queen_durable.mailbox_messages m
        where m.lock_token = k.lock_token and m.kind in ('StartMessage', 'ContinueAsNewMessage')
    );
    if v_orphans is null then
        return array[]::text[];
    end if;

    update queen_durable.mailbox_messages m
    set lock_token = null, attempts = greatest(0, m.attempts - 1)
    where m.queue = 'orchestrator' and m.routing_key = any (v_orphans) and m.lock_token is not null;
    update queen_durable.mailbox_keys k
    set lock_token = null, locked_until = null, ready_at = (
        select min(start.visible_at) from queen_durable.mailbox_messages start
        where start.queue = 'orchestrator' and start.routing_key = k.routing_key
          and start.kind in ('StartMessage', 'ContinueAsNewMessage')
    )
    where k.queue = 'orchestrator' and k.routing_key = any (v_orphans);
    delete from queen_durable.mailbox_keys k
    where k.queue = 'orchestrator' and k.routing_key = any (v_orphans)
      and not exists (
        select from queen_durable.mailbox_messages m
        where m.queue = 'orchestrator' and m.routing_key = k.routing_key
    );
    return v_orphans;
end $$;
