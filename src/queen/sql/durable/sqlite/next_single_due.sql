-- When the next message without routing key becomes visible, after :now.
select min(visible_at) from mailbox_messages where queue = :queue and routing_key is null and visible_at > :now
