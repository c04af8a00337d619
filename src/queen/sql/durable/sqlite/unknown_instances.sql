-- Instances that have been ready since :before and whose code no live worker has announced since, longest-waiting first.
select routing_key
from mailbox_keys as keys
where keys.queue = :queue
  and keys.ready_at <= :before
  and keys.handler <> ''
  and not exists (
    select 1 from handlers
    where handlers.queue = :queue and handlers.name = keys.handler and handlers.seen_at > :before
  )
order by keys.ready_at, keys.routing_key
limit :limit
