-- Copies messages of a key that have waited since :before to the dead letters.
insert into mailbox_dead_letters (id, queue, routing_key, body, attempts, error, dead_at)
select id, queue, routing_key, body, attempts, :error, :now
from mailbox_messages
where queue = :queue and routing_key = :routing_key and order_at <= :before
