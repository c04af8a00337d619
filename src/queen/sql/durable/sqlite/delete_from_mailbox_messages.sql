-- Deletes the messages routed to instances in a json list.
delete from mailbox_messages
where queue = :queue and routing_key in (select value from json_each(:instances))
