-- Promises: moves messages that waited p_keep_ms for an instance that never came to the dead letters, with the reason. Returns the
--   keys they were for, at most p_most.
-- Locks: the rows of the keys; those another session is just taking are skipped.
create or replace function queen_durable.expire_orphans(p_keep_ms bigint, p_most integer, p_now bigint) returns text[]
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
declare
    v_now  bigint := queen_durable.clock_ms(p_now);
    v_keys text[];
begin
    v_keys := array(
        select k.routing_key
        from queen_durable.mailbox_keys k
        where k.queue = 'orchestrator' and k.handler = '' and k.ready_at is null and k.lock_token is null
          and exists (
            select from queen_durable.mailbox_messages m
            where m.queue = 'orchestrator' and m.routing_key = k.routing_key and m.order_at <= v_now - p_keep_ms
          )
          and not exists (select from queen_durable.instances i where i.instance = k.routing_key)
        order by k.routing_key
        limit p_most
        for update of k skip locked
    );
    with gone as (
        delete from queen_durable.mailbox_messages m
        where m.queue = 'orchestrator' and m.routing_key = any (v_keys) and m.order_at <= v_now - p_keep_ms
        returning m.*
    )
    insert into queen_durable.mailbox_dead_letters (id, queue, routing_key, body, attempts, error, dead_at)
    select gone.id, gone.queue, gone.routing_key, gone.body, gone.attempts,
           format('no instance %s was started within %s ms', gone.routing_key, p_keep_ms), v_now
    from gone;
    delete from queen_durable.mailbox_keys k
    where k.queue = 'orchestrator' and k.routing_key = any (v_keys)
      and not exists (
        select from queen_durable.mailbox_messages m
        where m.queue = 'orchestrator' and m.routing_key = k.routing_key
    );
    return v_keys;
end $$;
