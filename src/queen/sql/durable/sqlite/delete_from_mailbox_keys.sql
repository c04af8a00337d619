-- Deletes the keys of instances in a json list, and with them their locks.
delete from mailbox_keys
where queue = :queue and routing_key in (select value from json_each(:instances))
