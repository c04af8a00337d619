-- Messages that nobody holds.
select
    (select count(*) from queen_durable.mailbox_messages m
     join queen_durable.mailbox_keys k on k.queue = m.queue and k.routing_key = m.routing_key
     where m.queue = 'orchestrator' and (k.lock_token is null or k.locked_until <= queen_durable.clock_ms($1))),
    (select count(*) from queen_durable.work_items w
     where w.lock_token is null or w.ready_at <= queen_durable.clock_ms($1))
