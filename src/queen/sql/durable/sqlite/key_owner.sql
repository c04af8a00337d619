-- Who committed the last turn of a key.
select owner from mailbox_keys where queue = :queue and routing_key = :routing_key
