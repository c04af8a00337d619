-- Keys with messages that have waited since :before for an instance that does not exist.
select keys.routing_key
from mailbox_keys as keys
where keys.queue = :queue and keys.handler = '' and keys.ready_at is null and keys.lock_token is null
  and exists (
    select 1 from mailbox_messages as messages
    where messages.queue = :queue and messages.routing_key = keys.routing_key and messages.order_at <= :before
  )
  and not exists (select 1 from instances where instances.instance = keys.routing_key)
order by keys.routing_key
limit :limit
