-- Takes back messages of a key by the name they were sent under.
delete from mailbox_messages where queue = :queue and routing_key = :routing_key and name = :name
