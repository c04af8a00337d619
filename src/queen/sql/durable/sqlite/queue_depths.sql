-- Messages that nobody holds.
select
    (select count(*) from mailbox_messages as messages
     join mailbox_keys as keys on keys.queue = messages.queue and keys.routing_key = messages.routing_key
     where messages.queue = :queue and (keys.lock_token is null or keys.locked_until <= :now)),
    (select count(*) from work_items where lock_token is null or ready_at <= :now)
