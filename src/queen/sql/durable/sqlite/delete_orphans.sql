-- Deletes messages of a key that have waited since :before.
delete from mailbox_messages where queue = :queue and routing_key = :routing_key and order_at <= :before
