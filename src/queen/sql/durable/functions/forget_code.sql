-- Promises: instances that have ended need no code any more: whoever comes first deals with what still arrives for them. A key
--   without messages goes.
-- Locks: the caller holds the keys.
create or replace function queen_durable.forget_code(p_ended text[]) returns void
language plpgsql volatile
set plan_cache_mode = force_generic_plan
set enable_seqscan = off as $$
begin
    delete from queen_durable.mailbox_keys k
    where k.queue = 'orchestrator' and k.routing_key = any (p_ended) and k.ready_at is null;
    update queen_durable.mailbox_keys k
    set handler = ''
    where k.queue = 'orchestrator' and k.routing_key = any (p_ended) and not exists (
        select from queen_durable.mailbox_messages m
        where m.queue = 'orchestrator' and m.routing_key = k.routing_key and m.kind = 'ContinueAsNewMessage'
    );
end $$;
